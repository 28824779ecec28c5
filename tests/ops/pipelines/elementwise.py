"""Operators that look at one element at a time, and their models."""

import itertools

from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.graph.node import UNKNOWN
from penstock.options import Options
from pipelines.stage import Stage, flags, folder, sizes, threads


@st.composite
def mapped(draw):
    k, calls = draw(sizes), draw(threads)
    if draw(st.integers(0, 4)) == 0:
        return Stage(
            f"map(rng, {calls})", lambda d: d.map(lambda x, *, rng: x + rng.integers(100), calls)
        )
    return Stage(
        f"map(+{k}, {calls})",
        lambda d: d.map(lambda x: x + k, calls),
        lambda xs: [x + k for x in xs],
    )


@st.composite
def mapped_in_batches(draw):
    k, calls = draw(sizes), draw(threads)
    return Stage(
        f"map_batches(+{k}, {calls})",
        lambda d: d.map_batches(lambda x: x + k, calls),
        lambda xs: [x + k for x in xs],
    )


@st.composite
def filtered(draw):
    k = draw(sizes)
    return Stage(
        f"filter(%{k})",
        lambda d: d.filter(lambda x: x % k == 0),
        lambda xs: [x for x in xs if x % k == 0],
    )


def fussy(k):
    def check(x):
        if x % k == 2:
            raise ValueError(f"not {x}")
        return x

    return check


@st.composite
def forgiven(draw):
    k = draw(st.integers(3, 6))
    return Stage(
        f"ignore_errors(%{k})",
        lambda d: d.map(fussy(k)).ignore_errors(),
        lambda xs: [x for x in xs if x % k != 2],
    )


@st.composite
def enumerated(draw):
    k = draw(sizes)
    return Stage(
        f"enumerate({k})",
        lambda d: d.enumerate(k).map(lambda i, x: i + x),
        lambda xs: [i + x for i, x in enumerate(xs, k)],
    )


@st.composite
def prefetched(draw):
    k = draw(sizes)
    return Stage(f"prefetch({k})", lambda d: d.prefetch(k), lambda xs: xs)


@st.composite
def with_options(draw):
    k, deterministic = draw(sizes), draw(st.sampled_from([None, True]))
    options = Options(deterministic, threads=k)
    return Stage(
        f"with_options({deterministic}, {k})", lambda d: d.with_options(options), lambda xs: xs
    )


NAMES = itertools.cycle(range(500))


def unwritten():
    """Return the name of a file that is not there; what is no longer in use makes room for it."""
    file = folder() / f"cache-{next(NAMES)}"
    file.unlink(missing_ok=True)
    return file


@st.composite
def cached(draw):
    if draw(st.integers(0, 2)):
        return Stage("cache", lambda d: d.cache(), lambda xs: xs)
    return Stage("cache(file)", lambda d: d.cache(unwritten()), lambda xs: xs)


def accumulated(xs, k):
    out, held = [], k
    for x in xs:
        held = (held + x) % 1000
        out.append(held - x)
    return out


@st.composite
def scanned(draw):
    k = draw(sizes)

    def step(held, x):
        held = (held + x) % 1000
        return held, held - x

    return Stage(f"scan({k})", lambda d: d.scan(k, step), lambda xs: accumulated(xs, k))


@st.composite
def without_repetition(draw):
    k = draw(sizes)
    return Stage(
        f"unique(//{k})",
        lambda d: d.map(lambda x: x // k).unique(),
        lambda xs: list(dict.fromkeys(x // k for x in xs)),
    )


@st.composite
def taken(draw):
    k = draw(st.integers(0, 15))
    return Stage(f"take({k})", lambda d: d.take(k), lambda xs: xs[:k])


@st.composite
def skipped(draw):
    k = draw(sizes)
    return Stage(f"skip({k})", lambda d: d.skip(k), lambda xs: xs[k:])


def while_true(xs, holds):
    end = next((i for i, x in enumerate(xs) if not holds(x)), len(xs))
    return xs[:end]


@st.composite
def taken_while(draw):
    k, m = draw(st.integers(3, 20)), draw(flags)

    def holds(x):
        return x < k if m else x % k != k - 1

    return Stage(
        f"take_while({k}, {m})", lambda d: d.take_while(holds), lambda xs: while_true(xs, holds)
    )


@st.composite
def sharded(draw):
    k = draw(sizes)
    i = draw(st.integers(0, k - 1))
    return Stage(f"shard({k}, {i})", lambda d: d.shard(k, i), lambda xs: xs[i::k])


@st.composite
def redelivered(draw):
    k = draw(st.integers(0, 5))
    if k < 4:
        return Stage(f"repeat({k})", lambda d: d.repeat(k), lambda xs: xs * k)
    return Stage(
        f"repeat().take({4 * k})",
        lambda d: d.repeat().take(4 * k),
        lambda xs: (xs * (4 * k))[: 4 * k],
    )


@st.composite
def asserted(draw):
    k = draw(st.integers(0, 12))
    if k == 0:
        return Stage("assert_cardinality", lambda d: d.assert_cardinality(UNKNOWN), lambda xs: xs)
    return Stage(
        f"assert_cardinality({k})",
        lambda d: d.concatenate(Dataset.range(k)).take(k).assert_cardinality(k),
        lambda xs: [*xs, *range(k)][:k],
    )


ELEMENTWISE = {
    "map": mapped(),
    "map_batches": mapped_in_batches(),
    "filter": filtered(),
    "ignore_errors": forgiven(),
    "enumerate": enumerated(),
    "prefetch": prefetched(),
    "cache": cached(),
    "with_options": with_options(),
    "scan": scanned(),
    "unique": without_repetition(),
    "take": taken(),
    "skip": skipped(),
    "take_while": taken_while(),
    "shard": sharded(),
    "repeat": redelivered(),
    "assert_cardinality": asserted(),
}

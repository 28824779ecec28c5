"""Random pipelines of all operators, against plain Python, restored at every position.

Every stage maps int64 scalars to int64 scalars, so that any may follow any. A stage is a pair: what
it does to a dataset, and what it does to a list.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from penstock import Dataset
from penstock.graph import walk

LIMIT = 40
"""No pipeline is read further than this."""


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline; `model` is None where plain Python cannot tell the order."""

    name: str
    apply: Callable[[Dataset], Dataset]
    model: Callable[[list[int]], list[int]] | None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Pipeline:
    """How to build a dataset, and its elements if plain Python can tell them."""

    name: str
    make: Callable[[], Dataset]
    elements: list[int] | None

    def then(self, stage: Stage) -> Pipeline:
        known = self.elements is not None and stage.model is not None
        return Pipeline(
            f"{self.name}.{stage.name}",
            lambda: stage.apply(self.make()),
            stage.model(self.elements)[: 40 * LIMIT] if known else None,
        )

    def __repr__(self) -> str:
        return self.name


def total(batch):
    return batch.sum()


def chunks(xs, n, drop):
    out = [xs[i : i + n] for i in range(0, len(xs), n)]
    return [sum(c) for c in out if len(c) == n or not drop]


def windows(xs, size, shift, stride, drop):
    out = []
    for start in range(0, len(xs), shift):
        w = xs[start : start + (size - 1) * stride + 1 : stride]
        if len(w) == size or not drop:
            out.append(sum(w))
    return out


def interleaved(xs, inner, cycle, block):
    """As tf.data: an empty slot takes the next input in its turn; an ended one ends its turn."""
    inputs = iter(xs)
    slots: list[list[int] | None] = [None] * cycle
    out: list[int] = []
    turn = 0
    more = True
    while more or any(s is not None for s in slots):
        slot = turn % cycle
        turn += 1
        if slots[slot] is None and more:
            x = next(inputs, None)
            more = x is not None
            slots[slot] = None if x is None else inner(x)
        if slots[slot] is None:
            continue
        given = slots[slot][:block]
        out += given
        rest = slots[slot][block:]
        # It shows its end only when it is asked for more than it has.
        slots[slot] = rest if len(given) == block else None
    return out


sizes = st.integers(1, 5)
flags = st.booleans()
threads = st.sampled_from([None, None, 1, 2, 3])


@st.composite
def elementwise(draw):
    k, calls, kind = draw(sizes), draw(threads), draw(st.integers(0, 4))
    if kind == 0:
        return Stage(
            f"map(+{k}, {calls})",
            lambda d: d.map(lambda x: x + k, calls),
            lambda xs: [x + k for x in xs],
        )
    if kind == 1:
        return Stage(
            f"enumerate({k})",
            lambda d: d.enumerate(k).map(lambda i, x: i + x),
            lambda xs: [i + x for i, x in enumerate(xs, k)],
        )
    if kind == 2:
        return Stage(f"prefetch({k})", lambda d: d.prefetch(k), lambda xs: xs)
    if kind == 3:
        return Stage("cache", lambda d: d.cache(), lambda xs: xs)
    return Stage(
        f"map(rng, {calls})",
        lambda d: d.map(lambda x, *, rng: x + rng.integers(100), calls),
        None,
    )


@st.composite
def choosing(draw):
    k, kind = draw(sizes), draw(st.integers(0, 5))
    if kind == 0:
        return Stage(
            f"filter(%{k})",
            lambda d: d.filter(lambda x: x % k == 0),
            lambda xs: [x for x in xs if x % k == 0],
        )
    if kind == 1:
        return Stage(f"take({3 * k})", lambda d: d.take(3 * k), lambda xs: xs[: 3 * k])
    if kind == 2:
        return Stage(f"skip({k})", lambda d: d.skip(k), lambda xs: xs[k:])
    if kind == 3:
        i = draw(st.integers(0, k - 1))
        return Stage(f"shard({k}, {i})", lambda d: d.shard(k, i), lambda xs: xs[i::k])
    if kind == 4:
        n = draw(st.integers(0, 3))
        return Stage(f"repeat({n})", lambda d: d.repeat(n), lambda xs: xs * n)
    return Stage(
        f"repeat().take({4 * k})",
        lambda d: d.repeat().take(4 * k),
        lambda xs: (xs * (4 * k))[: 4 * k],
    )


@st.composite
def grouping(draw):
    k, m, drop, kind = draw(sizes), draw(sizes), draw(flags), draw(st.integers(0, 5))
    if kind == 0:
        return Stage(
            f"batch({k}, {drop})",
            lambda d: d.batch(k, drop).map(total),
            lambda xs: chunks(xs, k, drop),
        )
    if kind == 1:
        return Stage(
            f"padded_batch({k}, {drop})",
            lambda d: d.padded_batch(k, drop_remainder=drop).map(total),
            lambda xs: chunks(xs, k, drop),
        )
    if kind == 2:
        return Stage(f"batch({k}).unbatch", lambda d: d.batch(k).unbatch(), lambda xs: xs)
    if kind == 3:
        return Stage(
            f"batch({k}).rebatch({m}, {drop})",
            lambda d: d.batch(k).rebatch(m, drop).map(total),
            lambda xs: chunks(xs, m, drop),
        )
    if kind == 4:
        seed = draw(st.sampled_from([None, 3]))
        return Stage(f"shuffle({k}, {seed})", lambda d: d.shuffle(k, seed), None)
    shift, stride = draw(sizes), draw(st.integers(1, 3))
    return Stage(
        f"window({k}, {shift}, {stride}, {drop})",
        lambda d: d.window(k, shift, stride, drop).flat_map(lambda w: w.batch(9)).map(total),
        lambda xs: windows(xs, k, shift, stride, drop),
    )


@st.composite
def nesting(draw):
    k, cycle, length, calls = draw(sizes), draw(sizes), draw(sizes), draw(threads)

    def inner(x):
        return list(range(x % k))

    if draw(flags):
        return Stage(
            f"flat_map(%{k})",
            lambda d: d.flat_map(lambda x: Dataset.range(x % k)),
            lambda xs: [y for x in xs for y in inner(x)],
        )
    return Stage(
        f"interleave(%{k}, {cycle}, {length}, {calls})",
        lambda d: d.interleave(lambda x: Dataset.range(x % k), cycle, length, calls),
        lambda xs: interleaved(xs, inner, cycle, length),
    )


@st.composite
def sources(draw):
    n, kind = draw(st.integers(0, 12)), draw(st.integers(0, 4))
    xs = list(range(n))
    if kind == 0:
        return Pipeline(f"range({n})", lambda: Dataset.range(n), xs)
    if kind == 1:
        return Pipeline(f"slices({n})", lambda: Dataset.from_tensor_slices([0, *xs]), [0, *xs])
    if kind == 2:
        return Pipeline(f"sequence({n})", lambda: Dataset.from_sequence(xs), xs)
    if kind == 3:
        return Pipeline(f"generator({n})", lambda: Dataset.from_generator(lambda: iter(xs)), xs)
    return Pipeline("tensors(7)", lambda: Dataset.from_tensors(7), [7])


stages = st.one_of(elementwise(), choosing(), grouping(), nesting())


@st.composite
def lines(draw, most):
    pipeline = draw(sources())
    for stage in draw(st.lists(stages, max_size=most)):
        pipeline = pipeline.then(stage)
    return pipeline


@st.composite
def pipelines(draw):
    left = draw(lines(3))
    join = draw(st.sampled_from(["none", "none", "zip", "concatenate"]))
    if join == "none":
        joined = left
    else:
        right = draw(lines(2))
        known = left.elements is not None and right.elements is not None
        if join == "zip":
            both = [a + b for a, b in zip(left.elements, right.elements)] if known else None
            joined = Pipeline(
                f"zip({left}, {right})",
                lambda: Dataset.zip(left.make(), right.make()).map(lambda a, b: a + b),
                both,
            )
        else:
            both = left.elements + right.elements if known else None
            joined = Pipeline(
                f"{left}.concatenate({right})",
                lambda: left.make().concatenate(right.make()),
                both,
            )
    for stage in draw(st.lists(stages, max_size=3)):
        joined = joined.then(stage)
    return joined


PATIENT = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


@settings(PATIENT, max_examples=40)
@given(pipeline=pipelines())
def test_a_random_pipeline_gives_what_plain_python_gives_from_every_state(check_states, pipeline):
    expected = None if pipeline.elements is None else pipeline.elements[:LIMIT]
    event(f"checked against plain Python: {expected is not None}")

    check_states(pipeline.make, expected, limit=LIMIT, blocks=(1, 3, 64), max_state=6000)


def fussy(k):
    def check(x):
        if x % k == 2:
            raise ValueError(f"not {x}")
        return x

    return check


@settings(PATIENT, max_examples=25)
@given(pipeline=lines(3), k=st.integers(3, 6), calls=threads, after=st.lists(stages, max_size=2))
def test_a_random_pipeline_with_errors_goes_on_exactly_behind_them(
    check_states, pipeline, k, calls, after
):
    def make():
        dataset = pipeline.make().map(fussy(k), calls)
        for stage in after:
            dataset = stage.apply(dataset)
        return dataset

    check_states(make, limit=LIMIT, blocks=(1, 3, 64), max_state=6000)


@st.composite
def split_logs(draw):
    """Some passes over 12 units, of which the task gets a part; and then many of one unit."""
    log = []
    for cuts in draw(st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=4)):
        cuts = sorted(set(cuts))
        log += zip(cuts[::2], cuts[1::2])
        log.append(None)
    return log + [(0, 1), None] * 200


@settings(PATIENT, max_examples=25)
@given(
    source=st.sampled_from([lambda: Dataset.range(12), lambda: Dataset.from_sequence(range(12))]),
    before=st.lists(stages, max_size=4),
    log=split_logs(),
)
def test_a_random_pipeline_reads_on_in_its_split_log_from_every_state(
    check_states, source, before, log
):
    def make():
        dataset = source()
        for stage in before:
            dataset = stage.apply(dataset)
        return dataset

    (path,) = [path for path, node in walk(make().node) if not node.inputs]

    check_states(make, limit=LIMIT, blocks=(1, 3, 64), logs=[log], streams={path: 0})


@pytest.mark.parametrize("cycle", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_model_of_interleave_knows_the_order_of_the_reference(cycle, length):
    # From the documentation of tf.data: five inputs of six, cycle_length=2, block_length=4.
    assert interleaved(range(1, 6), lambda x: [x] * 6, 2, 4) == list(
        itertools.chain(
            [1] * 4, [2] * 4, [1] * 2, [2] * 2, [3] * 4, [4] * 4, [3] * 2, [4] * 2, [5] * 4, [5] * 2
        )
    )
    elements = interleaved(range(9), lambda x: list(range(x)), cycle, length)
    assert sorted(elements) == sorted(y for x in range(9) for y in range(x))

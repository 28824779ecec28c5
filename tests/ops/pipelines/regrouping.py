"""Operators that put elements together, apart, or in another order, and their models."""

from bisect import bisect_right

import numpy as np
from hypothesis import strategies as st

from penstock.ops.internal.shuffle_slots import picks
from pipelines.stage import Stage, flags, sizes, total
from tests.ops.packs import MODELS, balanced, token_batches


def chunks(xs, n, drop):
    out = [xs[i : i + n] for i in range(0, len(xs), n)]
    return [c for c in out if len(c) == n or not drop]


def sums(lists):
    return [sum(xs) for xs in lists]


@st.composite
def batched(draw):
    k, drop = draw(sizes), draw(flags)
    return Stage(
        f"batch({k}, {drop})",
        lambda d: d.batch(k, drop).map(total),
        lambda xs: sums(chunks(xs, k, drop)),
    )


def arrow(x):
    """An array that is as long as its number says."""
    return np.full(x % 6, x % 11)


def weight(batch):
    """Tell batches of arrows apart by what is in them and by their shape."""
    return batch.sum() + 100 * batch.shape[0] + 1000 * batch.shape[1]


def weight_of(xs, width=None):
    width = max(x % 6 for x in xs) if width is None else width
    return sum((x % 6) * (x % 11) for x in xs) + 100 * len(xs) + 1000 * width


@st.composite
def padded(draw):
    k, drop = draw(sizes), draw(flags)
    return Stage(
        f"padded_batch({k}, {drop})",
        lambda d: d.map(arrow).padded_batch(k, drop_remainder=drop).map(weight),
        lambda xs: [weight_of(c) for c in chunks(xs, k, drop)],
    )


@st.composite
def ragged(draw):
    k, drop = draw(sizes), draw(flags)
    return Stage(
        f"ragged_batch({k}, {drop})",
        lambda d: d.map(arrow).ragged_batch(k, drop).map(lambda b: weight(b.padded())),
        lambda xs: [weight_of(c) for c in chunks(xs, k, drop)],
    )


@st.composite
def unbatched(draw):
    k = draw(sizes)
    return Stage(f"batch({k}).unbatch", lambda d: d.batch(k).unbatch(), lambda xs: xs)


@st.composite
def rebatched(draw):
    k, m, drop = draw(sizes), draw(sizes), draw(flags)
    return Stage(
        f"batch({k}).rebatch({m}, {drop})",
        lambda d: d.batch(k).rebatch(m, drop).map(total),
        lambda xs: sums(chunks(xs, m, drop)),
    )


def shuffled(xs, size, seed):
    """Pick after pick, from a buffer that the next element of the input fills up."""
    buffer, rest, out = xs[:size], xs[size:], []
    for n in range(len(xs)):
        ended = n + size >= len(xs)
        (slot,) = picks(seed, n, n + 1, size, len(xs) if ended else None).tolist()
        out.append(buffer[slot])
        if rest:
            buffer[slot] = rest[0]
            rest = rest[1:]
        else:
            buffer[slot] = buffer[-1]
            buffer.pop()
    return out


@st.composite
def in_random_order(draw):
    k, seed = draw(st.integers(1, 9)), draw(st.sampled_from([None, 3, 4]))
    if seed is None:
        return Stage(f"shuffle({k})", lambda d: d.shuffle(k))
    return Stage(
        f"shuffle({k}, {seed})",
        lambda d: d.shuffle(k, seed, reshuffle_each_iteration=False),
        lambda xs: shuffled(xs, k, seed),
    )


def windows(xs, size, shift, stride, drop):
    out = []
    for start in range(0, len(xs), shift):
        w = xs[start : start + (size - 1) * stride + 1 : stride]
        if len(w) == size or not drop:
            out.append(w)
    return out


@st.composite
def windowed(draw):
    k, shift, stride, drop = draw(sizes), draw(sizes), draw(st.integers(1, 3)), draw(flags)
    return Stage(
        f"window({k}, {shift}, {stride}, {drop})",
        lambda d: d.window(k, shift, stride, drop).flat_map(lambda w: w.batch(9)).map(total),
        lambda xs: sums(windows(xs, k, shift, stride, drop)),
    )


def groups(xs, key, size):
    """Full groups as they are full, then what is left in the order of keys."""
    held, out = {}, []
    for x in xs:
        k = key(x)
        held.setdefault(k, []).append(x)
        if len(held[k]) == size(k):
            out.append((k, held.pop(k)))
    return out + sorted(held.items())


@st.composite
def grouped(draw):
    keys, k, by_key, kind = draw(sizes), draw(sizes), draw(flags), draw(st.integers(0, 3))

    def size(key):
        return k + key % 2 if by_key else k

    def reduce(key, window):
        match kind:
            case 0:
                return window
            case 1:
                return window.batch(k).map(total)
            case 2:
                return window.skip(1).map(lambda x: x + key)
        return window.filter(lambda x: x % 2 == 0).repeat(2)

    def reduced(key, xs):
        match kind:
            case 0:
                return xs
            case 1:
                return sums(chunks(xs, k, False))
            case 2:
                return [x + key for x in xs[1:]]
        return [x for x in xs if x % 2 == 0] * 2

    how = {"window_size_func": size} if by_key else {"window_size": k}
    return Stage(
        f"group_by_window(%{keys}, {kind}, {k}, {by_key})",
        lambda d: d.group_by_window(lambda x: x % keys, reduce, **how),
        lambda xs: [
            y for key, group in groups(xs, lambda x: x % keys, size) for y in reduced(key, group)
        ],
    )


@st.composite
def bucketed(draw):
    boundaries = draw(st.sampled_from([[3], [1, 4], [2, 3, 6]]))
    n = len(boundaries) + 1
    batches = draw(st.lists(sizes, min_size=n, max_size=n))
    drop, to_boundary = draw(flags), draw(flags) and boundaries[-1] == 6

    def bucket(x):
        return bisect_right(boundaries, x % 6)

    def model(xs):
        return [
            weight_of(group, boundaries[key] - 1 if to_boundary else None)
            for key, group in groups(xs, bucket, lambda key: batches[key])
            if len(group) == batches[key] or not drop
        ]

    return Stage(
        f"bucket_by_sequence_length({boundaries}, {batches}, {to_boundary}, {drop})",
        lambda d: (
            d.map(arrow)
            .bucket_by_sequence_length(
                len,
                boundaries,
                batches,
                pad_to_bucket_boundary=to_boundary,
                drop_remainder=drop,
            )
            .map(weight)
        ),
        model,
    )


def pack_weight(pack):
    """Tell packs apart by their tokens, in their order, and by where documents begin."""
    tokens = pack["tokens"]
    return (tokens * (1 + np.arange(len(tokens)))).sum() + 1000 * pack["cu_seqlens"].sum()


def pack_weight_of(xs, held):
    """The same for pieces of the arrows of *xs*."""
    tokens = [xs[i] % 11 for i, start, stop in held for _ in range(start, stop)]
    stops = [0]
    for _, start, stop in held:
        stops.append(stops[-1] + stop - start)
    return sum(token * (1 + i) for i, token in enumerate(tokens)) + 1000 * sum(stops)


@st.composite
def packed(draw):
    capacity, buffer = draw(st.integers(1, 9)), draw(sizes)
    method = draw(st.sampled_from(sorted(MODELS)))
    return Stage(
        f"pack({capacity}, {method}, {buffer})",
        lambda d: (
            d.map(arrow).pack(capacity, field=None, method=method, buffer=buffer).map(pack_weight)
        ),
        lambda xs: [
            pack_weight_of(xs, held)
            for held in MODELS[method]([x % 6 for x in xs], capacity, buffer)
        ],
    )


@st.composite
def batched_by_tokens(draw):
    most = draw(st.integers(5, 12))
    return Stage(
        f"token_batches({most})",
        lambda d: d.map(arrow).token_batches(most, field=None).map(pack_weight),
        lambda xs: [pack_weight_of(xs, held) for held in token_batches([x % 6 for x in xs], most)],
    )


@st.composite
def in_balance(draw):
    consumers, more = draw(sizes), draw(st.integers(0, 6))
    return Stage(
        f"balance({consumers}, {consumers + more})",
        lambda d: d.balance(consumers, lambda x: x % 5, consumers + more),
        lambda xs: [xs[i] for i in balanced([x % 5 for x in xs], consumers, consumers + more)],
    )


REGROUPING = {
    "batch": batched(),
    "padded_batch": padded(),
    "ragged_batch": ragged(),
    "unbatch": unbatched(),
    "rebatch": rebatched(),
    "shuffle": in_random_order(),
    "window": windowed(),
    "group_by_window": grouped(),
    "bucket_by_sequence_length": bucketed(),
    "pack": packed(),
    "token_batches": batched_by_tokens(),
    "balance": in_balance(),
}

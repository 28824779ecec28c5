"""What operators behind `distribute` hold is unacked until the training loop has it."""

import random
from collections import Counter

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.graph.node import UNKNOWN

HERE = "127.0.0.1:5000"


def far(dataset=None, **kwargs):
    return (dataset or Dataset.range(1)).distribute("distributed_epoch", HERE, **kwargs)


def numbers_in(element):
    """The unacked elements that *element* was made of: what is below a thousand."""
    return [int(x) for x in np.atleast_1d(element) if x < 1000]


def tokens(pack):
    return pack["tokens"]


def flat(*parts):
    return np.concatenate([np.ravel(part) for part in parts])


EXACT = {
    "map": lambda ds, rng: ds.map(flat),
    "parallel map": lambda ds, rng: ds.map(flat, 3),
    "overtaking map": lambda ds, rng: ds.map(flat, 3, deterministic=False),
    "filter": lambda ds, rng: ds.filter(lambda x: int(np.sum(x)) % 5 != 1),
    "batch": lambda ds, rng: (
        ds.map(flat)
        .padded_batch(
            rng.randint(1, 4), (None,), padding_values=5000, drop_remainder=rng.random() < 0.5
        )
        .map(flat)
    ),
    "shuffle": lambda ds, rng: ds.shuffle(rng.randint(1, 30)),
    "prefetch": lambda ds, rng: ds.prefetch(rng.randint(1, 8)),
    "take": lambda ds, rng: ds.take(rng.randint(0, 60)),
    "take_while": lambda ds, rng: ds.take_while(lambda x, n=rng.randint(20, 60): np.min(x) < n),
    "assert_cardinality": lambda ds, rng: ds.assert_cardinality(UNKNOWN),
    "bucket_by_sequence_length": lambda ds, rng: (
        ds.map(flat)
        .bucket_by_sequence_length(len, [2, 4], [rng.randint(1, 5)] * 3, padding_values=5000)
        .map(flat)
    ),
    "pack": lambda ds, rng: (
        ds.map(flat).pack(200, None, buffer=rng.randint(1, 9), split_long="error").map(tokens)
    ),
    "token_batches": lambda ds, rng: ds.map(flat).token_batches(200, None).map(tokens),
    "balance": lambda ds, rng: ds.balance(2, np.size, rng.randint(2, 9)),
    "skip": lambda ds, rng: ds.skip(rng.randint(0, 4)),
    "shard": lambda ds, rng: ds.shard(2, rng.randint(0, 1)),
    "cache": lambda ds, rng: ds.cache(),
    "concatenate": lambda ds, rng: Dataset.range(5000, 5003).concatenate(ds),
    "zip": lambda ds, rng: Dataset.zip((ds, Dataset.range(5000, 5100))).map(flat),
    "repeat": lambda ds, rng: ds.repeat(2),
    "enumerate": lambda ds, rng: ds.enumerate(5000).map(lambda i, x: flat(i, x)),
}
CUTTING = {
    "pack, cut": lambda ds, rng: ds.map(flat).pack(2, None, buffer=rng.randint(1, 9)).map(tokens),
    "pack, concat": lambda ds, rng: ds.map(flat).pack(3, None, "concat").map(tokens),
    "unbatch": lambda ds, rng: ds.map(flat).unbatch(),
    "flat_map": lambda ds, rng: ds.flat_map(lambda x: Dataset.from_sequence([x, x])),
    "interleave": lambda ds, rng: ds.interleave(
        lambda x: Dataset.from_sequence([x, x, x]), cycle_length=rng.randint(1, 3)
    ),
    "rebatch": lambda ds, rng: ds.map(flat).rebatch(2),
    "window": lambda ds, rng: ds.window(3, shift=2).flat_map(lambda w: w),
    "group_by_window": lambda ds, rng: ds.map(flat).group_by_window(
        lambda x: x[0] % 3, lambda key, w: w, rng.randint(1, 9)
    ),
}


def pipeline(rng, operators):
    names = [rng.choice(list(operators)) for _ in range(rng.randint(1, 4))]
    ds = far()
    for name in names:
        ds = operators[name](ds, rng)
    return names, ds


def unacked(session):
    return {session.pulled[tag] for tag in session.unacked}


@pytest.mark.quick(53)
@pytest.mark.parametrize("seed", range(80))
def test_at_every_element_just_what_is_still_to_come_is_unacked(sessions, fake_session, seed):
    rng = random.Random(seed)
    sessions.make = lambda number, restore: fake_session(
        range(50 * number - 50, 50 * number), lambda limit: rng.randint(1, limit)
    )
    names, ds = pipeline(rng, EXACT)
    consumed, steps = Counter(), []

    with iter(ds) as it:
        for element in it:
            consumed.update(numbers_in(element))
            pulled = {int(number) for session in sessions for number in session.pulled}
            still = {number for session in sessions for number in unacked(session)}
            steps.append((set(consumed), still, pulled - still))

    if "cache" not in names:
        assert max(consumed.values(), default=0) <= 1, names
        for seen, still, paid in steps:
            assert not seen & still, names
            assert not (set(consumed) - seen) & paid, names
    if not {"take", "take_while"} & set(names):
        assert not any(unacked(session) for session in sessions), names


@pytest.mark.quick(14)
@pytest.mark.parametrize("seed", range(40))
def test_an_element_that_is_cut_is_unacked_until_its_last_piece(sessions, fake_session, seed):
    rng = random.Random(seed)
    sessions.make = lambda number, restore: fake_session(
        range(60), lambda limit: rng.randint(1, limit)
    )
    cutters = {**{k: EXACT[k] for k in ("map", "prefetch", "shuffle")}, **CUTTING}
    if rng.random() < 0.5:
        cutters.pop("rebatch")
        cutters.pop("unbatch")
    names, ds = pipeline(rng, cutters)
    steps = []

    with iter(ds) as it:
        for element in it:
            delivered = len(sessions[0].pulled)  # before what is unacked: threads go on pulling
            steps.append((numbers_in(element), unacked(sessions[0]), delivered))

    later: set[int] = set()
    for numbers, still, delivered in reversed(steps):
        assert later & set(range(delivered)) <= still, names
        later |= set(numbers)
    assert not unacked(sessions[0]), names


def test_what_waits_long_in_a_group_does_not_hold_back_what_came_later(sessions, fake_session):
    sessions.make = lambda number, restore: fake_session(range(60))
    ds = far().group_by_window(lambda x: int(x == 5), lambda key, window: window.batch(4), 4)
    still = []

    with iter(ds) as it:
        for _ in it:
            still.append(unacked(sessions[0]) & set(range(30)))

    assert all(5 in numbers for numbers in still[1:-1])  # it may come after the first group left
    assert still[8] == {5}
    assert not unacked(sessions[0])

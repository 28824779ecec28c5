"""A saved state of a job holds the operators behind `distribute`: they continue exactly."""

import json
import logging
from itertools import islice

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import StateError


def far():
    return Dataset.range(20).distribute("distributed_epoch", "127.0.0.1:5000")


def drawn(x, *, rng):
    return x + rng.integers(1000)


def pieces(d):
    """Make each element x three rows: 10 x, 10 x + 1, 10 x + 2."""
    return d.map(lambda x: 10 * x + np.arange(3))


def arrow(x):
    """Make element x as many numbers as its last digit says."""
    return x + np.arange(1 + x % 10)


BUILDS = {
    "rebatch": lambda d: pieces(d).rebatch(4),
    "rebatch, batch": lambda d: pieces(d).rebatch(4).batch(2),
    "unbatch": lambda d: pieces(d).unbatch(),
    "unbatch, batch": lambda d: pieces(d).unbatch().batch(7),
    "flat_map": lambda d: pieces(d).flat_map(Dataset.from_tensor_slices),
    "interleave": lambda d: pieces(d).interleave(Dataset.from_tensor_slices, cycle_length=3),
    "batch": lambda d: d.batch(3),
    "window": lambda d: d.window(4, shift=2).flat_map(lambda w: w.batch(4)),
    "map with rng": lambda d: d.map(drawn).batch(3),
    "threads": lambda d: pieces(d).map(drawn, num_parallel_calls=3).rebatch(4),
    "prefetch": lambda d: pieces(d).rebatch(4).prefetch(2),
    "prefetch within": lambda d: pieces(d).prefetch(3).rebatch(4),
    "enumerate": lambda d: d.enumerate().batch(2),
    "scan": lambda d: d.scan(0, lambda total, x: (total + x, total + x)),
    "filter": lambda d: d.filter(lambda x: bool(x % 3)).enumerate(),
    "take": lambda d: pieces(d).unbatch().take(31),
    "zip": lambda d: Dataset.zip((pieces(d).unbatch(), Dataset.range(99))),
    "shuffled pieces": lambda d: pieces(d).unbatch().shuffle(8, seed=3),
    "shuffle": lambda d: d.shuffle(8, seed=3),
    "shuffle without a seed": lambda d: d.shuffle(5),
    "shuffle of all": lambda d: d.shuffle(50, seed=3).batch(3),
    "shuffle, rebatch": lambda d: pieces(d).shuffle(6, seed=2).rebatch(4),
    "shuffle, prefetch": lambda d: d.prefetch(3).shuffle(6, seed=2).batch(2).prefetch(2),
    "shuffled batches": lambda d: d.batch(3).shuffle(3, seed=4).unbatch(),
    "shuffle of some": lambda d: d.filter(lambda x: bool(x % 3)).shuffle(4, seed=1).enumerate(),
    "shuffle, window": lambda d: d.shuffle(6).window(4, shift=2).flat_map(lambda w: w.batch(4)),
    "shuffle, rng": lambda d: d.map(lambda x: x + 1).shuffle(6, seed=2).map(drawn),
    "shuffle in passes": lambda d: d.shuffle(6, seed=2).repeat(2).batch(3),
    "mixture of shuffles": lambda d: Dataset.mixture(
        {"a": d.shuffle(4), "b": Dataset.range(1000, 1040).shuffle(4).batch(2)},
        {"a": 2, "b": 1},
        stop="drop",
    ),
    "mixture by size": lambda d: Dataset.mixture(
        {"a": d, "b": Dataset.range(1000, 1040)},
        {"a": 2, "b": 1},
        unit="tokens",
        length=lambda x: 1 + x % 3,
        stop="drop",
    ),
    "sample of shuffles": lambda d: Dataset.sample_from_datasets(
        [d.shuffle(4), Dataset.range(1000, 1040).shuffle(4).batch(2)], weights=[0.6, 0.4], seed=5
    ),
    "groups": lambda d: d.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), 4),
    "groups that become several": lambda d: d.filter(lambda x: bool(x % 5)).group_by_window(
        lambda x: x % 2, lambda key, w: w.map(lambda x: x + 100 * key).shuffle(3), 5
    ),
    "groups of chance": lambda d: d.batch(2).group_by_window(
        lambda x, *, rng: int(rng.integers(3)), lambda key, w: w.map(drawn), 3
    ),
    "a group that is seldom full": lambda d: (
        pieces(d).unbatch().group_by_window(lambda x: int(x == 2), lambda k, w: w.batch(4), 4)
    ),
    "an element of a group far from the others": lambda d: d.group_by_window(
        lambda x: int(x == 1), lambda key, w: w.batch(2), 2
    ),
    "buckets": lambda d: d.map(lambda x: np.arange(x % 7)).bucket_by_sequence_length(
        len, [2, 4, 6], [3, 2, 4, 2]
    ),
    "buckets, prefetch": lambda d: (
        d.prefetch(2).bucket_by_sequence_length(lambda x: x % 7, [2, 4], [3, 2, 4]).prefetch(2)
    ),
    "buckets of pieces": lambda d: (
        pieces(d).rebatch(2).bucket_by_sequence_length(lambda x: x[0] % 9, [2, 4], [3, 2, 4])
    ),
    "pack": lambda d: d.map(arrow).pack(10, None, buffer=4),
    "pack in windows": lambda d: d.map(arrow).pack(10, None, "first_fit_decreasing", buffer=4),
    "pack, cut": lambda d: d.map(arrow).pack(4, None, buffer=3),
    "pack without cuts": lambda d: d.map(arrow).pack(10, None, buffer=4, split_long="error"),
    "pack, concat": lambda d: d.map(arrow).pack(10, None, "concat"),
    "packs of pieces": lambda d: pieces(d).rebatch(2).pack(5, None, buffer=3),
    "token batches": lambda d: d.map(arrow).token_batches(10, None),
    "balance": lambda d: d.balance(3, lambda x: x % 7, window=6),
    "sample": lambda d: Dataset.sample_from_datasets(
        [pieces(d).rebatch(4), Dataset.range(1000, 1040).batch(2)], weights=[0.6, 0.4], seed=5
    ),
}


def plain(elements):
    def of(x):
        if isinstance(x, dict):
            return {name: of(part) for name, part in x.items()}
        return tuple(map(of, x)) if isinstance(x, tuple) else np.asarray(x).tolist()

    return [of(x) for x in elements]


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", BUILDS)
def test_operators_continue_from_a_state_as_if_nothing_had_happened(saving, name):
    dataset = BUILDS[name](far())
    with dataset.iterator() as it:
        state = it.state()
        whole = plain(it)
    for stop in range(len(whole) + 1):
        with dataset.iterator(state) as it:  # which has the seed
            seen = [next(it) for _ in range(stop)]
            saved = json.loads(json.dumps(it.state()))
        with dataset.iterator(saved) as it:
            assert plain([*seen, *it]) == whole, stop


@pytest.mark.quick(12)
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    "name",
    [
        "rebatch",
        "shuffle",
        "shuffle of all",
        "shuffled batches",
        "groups",
        "groups that become several",
        "a group that is seldom full",
        "buckets",
        "buckets of pieces",
        "pack",
        "pack in windows",
        "pack, cut",
        "pack, concat",
        "token batches",
        "balance",
    ],
)
def test_operators_continue_through_one_restore_after_the_other(saving, name, steps):
    dataset = BUILDS[name](far())
    with dataset.iterator() as it:
        state = it.state()
        whole = plain(it)
    seen = []
    while len(seen) < len(whole):
        with dataset.iterator(state) as it:
            state = it.state()
        with dataset.iterator(state) as it:
            seen += plain(islice(it, steps))
            state = it.state()
    assert seen == whole


@pytest.mark.quick(2)
@pytest.mark.parametrize("size", [1, 8, 50])
@pytest.mark.parametrize("more", [[], [20, 21, 22, 23]])
@pytest.mark.parametrize("fewer", [[], [7], [3, 19]])
def test_a_shuffle_that_gets_other_elements_than_it_held_loses_none(saving, size, more, fewer):
    dataset = far().shuffle(size, seed=3)
    with dataset.iterator() as it:
        state = it.state()
        length = len(list(it))
    for stop in range(length):
        with dataset.iterator(state) as it:
            for _ in range(stop):
                next(it)
            saved = it.state()
        (job,) = next(iter(saved["jobs"].values()))
        if job["state"].get("finished"):
            continue
        left = [x for x in job["state"]["left"] if x not in fewer] + more
        job["state"]["left"] = left
        with dataset.iterator(saved) as it:
            assert sorted(int(x) for x in it) == left, stop


def test_a_shuffle_behind_numbered_elements_begins_anew(saving, caplog):
    dataset = far().enumerate().shuffle(5)
    with dataset.iterator() as it:
        seen = [next(it) for _ in range(6)]
        state = it.state()

    with caplog.at_level(logging.WARNING), dataset.iterator(state) as it:
        seen += it
    assert "start over: the state does not hold them" in caplog.text
    assert sorted(int(x) for _, x in seen) == list(range(20))


def test_a_state_of_a_state_is_the_same_before_anything_was_read(saving):
    dataset = BUILDS["rebatch"](far())
    with dataset.iterator() as it:
        next(it)
        first = it.state()
    with dataset.iterator(first) as it:
        again = it.state()
        next(it)
    with dataset.iterator(again) as it:
        assert next(it).tolist() == [11, 12, 20, 21]


def test_a_state_of_version_2_begins_the_operators_anew_and_says_so(saving, caplog):
    dataset = BUILDS["rebatch"](far())
    with dataset.iterator() as it:
        next(it)
        state = it.state()
    state["v"] = 2
    del state["operators"]

    with caplog.at_level(logging.WARNING), dataset.iterator(state) as it:
        assert next(it).tolist() == [10, 11, 12, 20]
    assert "start over: the state does not hold them" in caplog.text


def test_other_operators_begin_anew_and_say_so(saving, caplog):
    with BUILDS["rebatch"](far()).iterator() as it:
        next(it)
        state = it.state()

    with caplog.at_level(logging.WARNING), pieces(far()).iterator(state) as it:
        assert next(it).tolist() == [10, 11, 12]
    assert "this dataset has '0map 1distribute'" in caplog.text


def test_a_damaged_part_is_told_of(saving):
    dataset = BUILDS["rebatch"](far())
    with dataset.iterator() as it:
        state = it.state()
    with pytest.raises(StateError, match=r"operators behind distribute\(...\) is malformed"):
        dataset.iterator({**state, "operators": {"seed": 1}})

"""Random orders: of every size, each number once; evenly; and the same for ever."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.draws import MOST, SORTED, Permutation

seeds = st.integers(-(2**70), 2**70)
sizes = st.one_of(
    st.integers(0, 40),
    st.integers(SORTED - 3, SORTED + 3),
    st.sampled_from([4099, 4356, 65_536, 65_537, 104_729]),  # primes, and squares
)


def order(seed, size):
    return Permutation(seed, size).at(np.arange(size))


def unevenness(counts):
    """Chi square of *counts* against equal ones, in standard deviations from what is expected."""
    counts = np.asarray(counts, float)
    expected = counts.mean()
    freedom = np.prod([length - 1 for length in counts.shape])
    return (((counts - expected) ** 2).sum() / expected - freedom) / (2 * freedom) ** 0.5


@settings(derandomize=True)
@given(seed=seeds, size=sizes)
def test_an_order_has_each_number_once(seed, size):
    assert np.bincount(order(seed, size), minlength=size).tolist() == [1] * size


@settings(derandomize=True)
@given(seed=seeds, size=st.integers(2**32 - 2, MOST), data=st.data())
def test_an_order_of_many_numbers_has_none_twice(seed, size, data):
    first = data.draw(st.integers(0, size - 1000))
    places = np.append(np.arange(first, first + 1000), [size - 1, 0] if first > 1000 else [])

    numbers = Permutation(seed, size).at(places.astype(np.int64))

    assert len(set(numbers.tolist())) == len(set(places.tolist()))
    assert 0 <= int(numbers.min()) <= int(numbers.max()) < size


@settings(derandomize=True)
@given(seed=seeds, size=st.one_of(st.integers(1, 10_000), st.integers(1, MOST)), data=st.data())
def test_any_part_of_an_order_can_be_had_alone(seed, size, data):
    places = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    some = Permutation(seed, size)

    together = some.at(np.array(places, np.int64)).tolist()

    assert together == [int(some.at(np.array([place]))[0]) for place in places]


def test_an_order_is_the_same_on_every_machine_and_in_every_version():
    def start(seed, size):
        return " ".join(map(str, Permutation(seed, size).at(np.arange(min(size, 4)))))

    assert start(7, 1) == "0"
    assert start(7, 10) == "4 9 0 7"
    assert start(7, SORTED) == "988 1608 243 1571"
    assert start(7, SORTED + 1) == "3067 1814 2570 2307"
    assert start(-1, 10**6) == "722779 457091 872669 210380"
    assert start(0, 10**9) == "167771040 767584908 637089756 12290320"
    assert start(2**63, 2**32 + 15) == "1152922208 310005412 111074841 2621106785"
    assert start(1, 10**15) == "682858751243638 769975299871551 398795117729918 494558089105213"
    assert start(1, MOST).startswith("6738109151820687355 2134975275868844020 ")

    whole = order(12, 100_000).astype("<i8").tobytes()
    assert hashlib.sha256(whole).hexdigest()[:16] == "ad1ca5117821003e"


def test_all_orders_of_a_few_numbers_are_equally_likely():
    found = Counter(tuple(order(seed, 4).tolist()) for seed in range(4800))

    assert found.keys() == set(permutations(range(4)))
    assert abs(unevenness(list(found.values()))) < 4


def test_a_number_of_few_comes_to_every_place_equally_often():
    counts = np.zeros((12, 12))
    for seed in range(2000):
        counts[np.arange(12), order(seed, 12)] += 1

    assert abs(unevenness(counts)) < 4


@pytest.mark.quick(2)
@pytest.mark.parametrize("size", [5000, 7000, 65_000])
def test_numbers_of_many_come_to_all_places_equally_often(size):
    counts, parts = np.zeros((20, 20)), np.arange(size) * 20 // size
    for seed in range(100):
        np.add.at(counts, (parts, parts[order(seed, size)]), 1)

    assert abs(unevenness(counts)) < 4


@pytest.mark.parametrize("size", [10_001, 10**9 + 1, 10**15 + 1])
def test_neighbours_are_apart_by_any_distance_equally_often(size):
    counts = np.zeros(20)
    for seed in range(20):
        numbers = Permutation(seed, size).at(np.arange(10_000))
        apart = np.diff(numbers) % size - 1  # from 0 to size - 2
        counts += np.bincount(apart * 20 // (size - 1), minlength=20)

    assert abs(unevenness(counts)) < 4


@pytest.mark.parametrize("size", [100, 10_000])
def test_orders_of_other_seeds_and_sizes_have_nothing_in_common(size):
    one = order(1, size)

    assert (one == order(2, size)).mean() < 0.1
    assert (one == order(1, size + 1)[:size]).mean() < 0.1

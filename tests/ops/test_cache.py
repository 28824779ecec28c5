import gc
import json
import weakref

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError


def noisy(x, *, rng):
    return x, rng.integers(1 << 30)


def test_later_passes_are_not_made_again(counted):
    fn = counted(lambda x: x * 2)

    assert list(Dataset.range(5).map(fn).cache().repeat(3)) == [0, 2, 4, 6, 8] * 3
    assert fn.calls == [0, 1, 2, 3, 4]


def test_later_iterators_use_the_cache(counted):
    fn = counted(lambda x: x * 2)
    dataset = Dataset.range(5).map(fn).cache()

    assert list(dataset) == list(dataset) == list(dataset.batch(5).unbatch()) == [0, 2, 4, 6, 8]
    assert fn.calls == [0, 1, 2, 3, 4]


def test_a_pass_that_is_not_read_to_its_end_fills_nothing(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(5).map(fn).cache().take(3)

    assert list(dataset.repeat(2)) == [0, 1, 2] * 2
    assert fn.calls == [0, 1, 2] * 2


def test_a_skip_behind_a_cache_lets_it_fill(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(5).map(fn).cache().skip(3)

    assert list(dataset) == list(dataset) == [3, 4]
    assert fn.calls == [0, 1, 2, 3, 4]


def test_states_of_all_passes_are_exact(check_states):
    check_states(lambda: Dataset.range(5).cache().repeat(3), list(range(5)) * 3)
    check_states(lambda: Dataset.range(5).map(noisy).cache().repeat(3))
    check_states(lambda: Dataset.range(7).map(noisy).cache().take(3).repeat(3))
    check_states(lambda: Dataset.range(7).map(noisy).cache().skip(3).repeat(3))
    check_states(lambda: Dataset.range(0).cache().repeat(3), [])


def test_all_passes_give_what_the_first_one_gave():
    numbers = list(Dataset.range(4).map(noisy).cache().repeat(3))

    assert numbers == numbers[:4] * 3
    assert len(set(numbers)) == 4


def test_caches_on_caches_and_side_by_side(check_states):
    check_states(lambda: Dataset.range(3).cache().map(noisy).cache().repeat(3))

    def halves():
        cached = Dataset.range(5).map(noisy).cache()
        return cached.take(2).concatenate(cached.skip(2)).repeat(2)

    check_states(halves)


def test_an_iterator_on_a_cache_that_another_one_filled_has_exact_states():
    dataset = Dataset.range(6).map(noisy).cache()
    filled = list(dataset)
    with iter(dataset) as it:
        states = [it.state()]
        for _ in filled:
            next(it)
            states.append(it.state())

    for position, state in enumerate(json.loads(json.dumps(states))):
        anew = Dataset.range(6).map(noisy).cache()
        assert list(anew.iterator(state)) == filled[position:]
        assert list(dataset.iterator(state)) == filled[position:]


def test_a_cache_of_another_run_is_no_help_to_a_state():
    make = lambda: Dataset.range(6).map(noisy).cache().repeat(2)
    with iter(make()) as it:
        elsewhere = [next(it) for _ in range(9)]
        state = it.state()
    here = make()
    filled = list(here)[:6]

    tail = list(here.iterator(state))

    assert filled != elsewhere[:6]
    assert tail == elsewhere[3:6]


def test_a_restore_where_the_cache_is_makes_nothing_again(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(6).map(fn).cache().repeat(2)
    it = iter(dataset)
    for _ in range(8):
        next(it)
    state = it.state()
    fn.calls.clear()

    assert list(dataset.iterator(state)) == [2, 3, 4, 5]
    assert fn.calls == []


def test_a_restore_in_the_first_pass_goes_on_behind_what_was_returned(counted):
    fn = counted(lambda x: x)
    it = iter(Dataset.range(6).map(fn).cache())
    for _ in range(4):
        next(it)
    state = it.state()
    fn.calls.clear()

    assert list(Dataset.range(6).map(fn).cache().iterator(state)) == [4, 5]
    assert fn.calls == [4, 5]


def test_errors_come_in_the_first_pass_only(check_states):
    def picky(x):
        if x == 1:
            raise ValueError("one")
        return x

    failed = TransformError("map(picky)", 1, "ValueError: one")
    check_states(lambda: Dataset.range(3).map(picky).cache().repeat(3), [0, failed, 2, 0, 2, 0, 2])


def test_nobody_can_write_to_what_is_cached():
    owned = np.arange(3)
    dataset = Dataset.range(2).map(lambda _: {"x": owned}).cache()

    def spoil(element):
        element["y"] = 1
        element["x"] += 1

    with pytest.raises(TransformError, match="read-only"):
        next(iter(dataset.map(spoil)))

    assert owned.flags.writeable
    for _ in range(3):  # the first fills the cache
        first, second = dataset
        assert set(first) == set(second) == {"x"}
        first["y"] = 1


def test_the_cache_goes_with_the_dataset():
    class Big(dict):
        pass

    big = Big(x=1)
    alive = weakref.ref(big)
    dataset = Dataset.range(1).map(lambda _: 1).cache()
    list(dataset)
    node = weakref.ref(dataset.node)
    del dataset, big

    gc.collect()

    assert node() is None
    assert alive() is None


def test_the_cardinality_is_that_of_the_input():
    assert Dataset.range(3).cache().cardinality() == 3

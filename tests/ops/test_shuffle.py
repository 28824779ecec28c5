"""`shuffle`: its order, its seeds, and what a restored buffer costs."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine import draws
from penstock.errors import DatasetError, StateError, TransformError
from penstock.ops.shuffle import contents
from tests.ops.waiting import failing_at


def model(values, size, seed):
    """Shuffle as the module says, one element at a time."""
    values = list(values)
    total, slots, out = len(values), values[:size], []
    for j in range(total):
        left = min(size, total - j)
        slot = int(draws.draw(seed, j, j + 1)[0] >> np.uint64(32)) * left >> 32
        out.append(slots[slot])
        if j + size < total:
            slots[slot] = values[j + size]
        else:
            slots[slot] = slots[left - 1]
            slots.pop()
    return out


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    ("size", "seed"), [(1, 0), (2, 5), (7, -3), (20, 2**70), (22, 5), (23, 5), (100, 6)]
)
def test_the_order_is_that_of_the_slow_model_and_a_state_is_exact(check_states, size, seed):
    check_states(lambda: Dataset.range(23).shuffle(size, seed), model(range(23), size, seed))


@pytest.mark.parametrize("size", [1, 16, 1000])
def test_long_inputs_agree_with_the_model_and_restore(size):
    dataset = Dataset.range(5000).shuffle(size, seed=11)
    expected = model(range(5000), size, 11)

    states = {}
    with iter(dataset) as it:
        for position in range(5000):
            if position % 617 == 0 or position > 4990:
                states[position] = json.dumps(it.state())
            assert next(it) == expected[position]
    for position, state in states.items():
        with dataset.iterator(json.loads(state)) as it:
            assert list(it) == expected[position:]
    assert max(map(len, states.values())) < 200


@pytest.mark.parametrize(("size", "total"), [(1, 9), (4, 9), (9, 9), (20, 9), (40, 3000)])
def test_what_the_slots_hold_follows_from_counters(size, total):
    slots, at = list(range(min(size, total))), {}
    for n in range(total):
        at[n] = list(slots)
        left = min(size, total - n)
        slot = int(draws.below(draws.draw(5, n, n + 1), left)[0])
        if n + size < total:
            slots[slot] = n + size
        else:
            slots[slot] = slots[left - 1]
            slots.pop()

    for n in range(0, total, max(1, total // 100)):
        assert contents(5, size, n, total).tolist() == at[n]
        if n + size <= total:
            assert contents(5, size, n, None).tolist() == at[n]


def test_splits_need_not_be_read_again_before_the_oldest_element(check_states):
    log = [(0, 5), (9, 20), (20, 21), None, (40, 47), None]

    outcome = check_states(
        lambda: Dataset.range(60).shuffle(4, seed=1).repeat(2), logs=[log], streams={".0.0": 0}
    )

    order = [int(text) for _, text in outcome]
    assert order[:17] == model([*range(5), *range(9, 21)], 4, 1)
    assert sorted(order[17:]) == list(range(40, 47))


def test_without_a_seed_each_iterator_has_an_order_of_its_own_and_a_state_keeps_it():
    dataset = Dataset.range(200).shuffle(50)
    with iter(dataset) as it:
        state = it.state()
        first = list(it)

    assert first != list(dataset)
    assert first == list(dataset.iterator(state))
    assert Counter(first) == Counter(range(200))


def test_a_seed_gives_every_iterator_one_order_and_every_pass_another():
    dataset = Dataset.range(100).shuffle(30, seed=4)
    passes = list(dataset.repeat(2))

    assert list(dataset) == list(dataset) == passes[:100]
    assert passes[100:] != passes[:100]
    assert sorted(passes[100:]) == list(range(100))


@pytest.mark.slow
def test_every_element_may_come_to_every_place():
    firsts = Counter(int(next(iter(Dataset.range(8).shuffle(8, seed=seed)))) for seed in range(800))

    assert set(firsts) == set(range(8))
    assert max(firsts.values()) < 150


def test_a_restored_shuffle_calls_the_function_for_buffered_elements_only(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(100_000).map(fn).shuffle(64).batch(8)
    with iter(dataset) as it:
        returned = {int(x) for _ in range(1250) for x in next(it)}
        state = json.loads(json.dumps(it.state()))
        rest = next(it)
    fn.calls.clear()

    with dataset.iterator(state) as it:
        batch = next(it)

    assert batch.tolist() == rest.tolist()
    assert len(fn.calls) <= 64 + 8
    assert not returned & set(fn.calls)


def test_a_restored_shuffle_calls_nothing_again_while_it_runs_dry(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(200).map(fn).shuffle(64, seed=3)
    for taken in (136, 150, 199, 200):
        with iter(dataset) as it:
            returned = {int(next(it)) for _ in range(taken)}
            state = it.state()
        fn.calls.clear()

        with dataset.iterator(state) as it:
            rest = set(map(int, it))
        assert returned | rest == set(range(200))
        assert set(fn.calls) == rest
        assert len(fn.calls) == len(rest)


def test_a_state_does_not_grow():
    dataset = Dataset.range(200_000).shuffle(100).batch(10).shuffle(50)
    lengths = []
    with iter(dataset) as it:
        for n in range(15_001):
            next(it)
            if n in (100, 1500, 15_000):
                lengths.append(len(json.dumps(it.state())))

    assert max(lengths) <= min(lengths) + 30  # more digits


def test_nothing_leaves_before_the_buffer_is_full(counted):
    fn = counted(lambda x: x)
    with iter(Dataset.range(100).map(fn).shuffle(40)) as it:
        next(it)

    assert len(fn.calls) >= 40


def test_a_buffer_far_larger_than_the_input_costs_nothing():
    assert sorted(Dataset.range(10).shuffle(2**40)) == list(range(10))


def test_errors_come_as_they_are_met_and_states_pass_over_them(check_states):
    def make():
        return Dataset.range(40).map(failing_at(1, 2, 7, 10, 30, 31, 39)).shuffle(5, seed=1)

    outcome = check_states(make)

    assert sum(type(x).__name__ == "Failure" for x in outcome) == 7
    assert len(outcome) == 40


def test_errors_of_batches_are_not_taken_for_elements(check_states):
    def make():
        return Dataset.range(30).map(failing_at(0, 1, 2, 7, 10, 29)).batch(2).shuffle(4)

    outcome = check_states(make)

    assert sum(type(x).__name__ == "Failure" for x in outcome) == 6


def test_an_element_that_fails_only_after_a_restore_leaves_a_gap():
    broken = set()
    dataset = Dataset.range(60).map(lambda x: failing_at(*broken)(x)).shuffle(10, seed=2)
    with iter(dataset) as it:
        before = [int(next(it)) for _ in range(20)]
        state = it.state()
        rest = [int(x) for x in it]
    broken |= {int(x) for x in contents(2, 10, 20, None)[[3, 7]]}

    with dataset.iterator(state) as it:
        for _ in range(2):
            with pytest.raises(TransformError, match="is bad"):
                next(it)
        after, states = [], []
        for element in it:
            after.append(int(element))
            states.append(it.state())

    assert after == [x for x in rest if x not in broken]
    assert not set(before) & set(after)
    broken.clear()
    for position, state in enumerate(states, 1):
        with dataset.iterator(state) as it:
            behind = rest[rest.index(after[position - 1]) + 1 :]
            assert list(it) == behind


def test_data_that_became_shorter_are_named():
    with iter(Dataset.range(100).shuffle(10, seed=1)) as it:
        for _ in range(50):
            next(it)
        state = it.state()

    with (
        Dataset.range(55).shuffle(10, seed=1).iterator(state) as it,
        pytest.raises(StateError, match="the input ends at element 55"),
    ):
        next(it)


def test_bad_arguments_are_named():
    with pytest.raises(DatasetError, match="shuffle: buffer_size must be an integer"):
        Dataset.range(3).shuffle(0)
    with pytest.raises(DatasetError, match="shuffle: seed must be an integer or None, not 'x'"):
        Dataset.range(3).shuffle(3, seed="x")


def test_cardinality_is_that_of_the_input():
    assert Dataset.range(7).shuffle(3).cardinality() == 7

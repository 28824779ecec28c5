"""`batch`: what it gives, where it may be restored, what it says to bad input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, TransformError
from penstock.graph.node import UNKNOWN


class Pair(NamedTuple):
    left: Any
    right: Any


def runs(values, size, drop=False):
    cut = [values[i : i + size] for i in range(0, len(values), size)]
    return [np.array(run) for run in cut if len(run) == size or not drop]


def failing_at(*bad):
    def check(x):
        if x in bad:
            raise ValueError(f"{x} is bad")
        return x

    return check


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 12, 13])
def test_runs_are_stacked_and_a_state_is_exact_everywhere(check_states, size, drop):
    check_states(lambda: Dataset.range(12).batch(size, drop), runs(list(range(12)), size, drop))


def test_batches_of_batches_keep_their_places(check_states):
    outcome = check_states(lambda: Dataset.range(22).batch(2).batch(3, drop_remainder=True))

    assert len(outcome) == 3


def test_a_nest_is_stacked_leaf_by_leaf():
    words = ["a", "bc", "d"]
    elements = [{"n": i, "pair": Pair(words[i], words[i].encode())} for i in range(3)]

    (batch,) = Dataset.range(3).map(lambda i: elements[i]).batch(3)

    assert batch["n"].dtype == np.int64
    assert batch["n"].tolist() == [0, 1, 2]
    assert type(batch["pair"]).__name__ == "Pair"
    assert batch["pair"].left.dtype == object
    assert batch["pair"].left.tolist() == words
    assert batch["pair"].right.tolist() == [b"a", b"bc", b"d"]


def test_a_restored_batch_calls_the_function_for_its_own_elements_only(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(100).map(fn).batch(8)
    with iter(dataset) as it:
        for _ in range(5):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        batch = next(it)

    assert batch.tolist() == list(range(40, 48))
    assert fn.calls[:8] == list(range(40, 48))
    assert min(fn.calls) == 40


def test_skipped_batches_call_nothing(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(40).map(fn).batch(4).shuffle(2, seed=1)
    with iter(dataset) as it:
        for _ in range(6):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        next(it)

    assert len(set(fn.calls)) <= 4 * 3


def test_an_error_in_the_input_leaves_the_batch_open(check_states):
    def make():
        return Dataset.range(9).map(failing_at(0, 4, 5, 8)).batch(3)

    outcome = check_states(make)

    values = [repr(x) for x in outcome if isinstance(x, tuple)]
    assert values == [
        repr(("int64", (3,), "[1, 2, 3]")),
        repr(("int64", (2,), "[6, 7]")),
    ]
    assert [isinstance(x, tuple) for x in outcome] == [False, True, False, False, False, True]


def test_ragged_elements_name_both_shapes_and_the_way_out_and_cost_one_batch(check_states):
    def make():
        return Dataset.range(8).map(lambda n: np.zeros(2 + (n == 3))).batch(2)

    outcome = check_states(make)

    assert [type(x).__name__ for x in outcome] == ["tuple", "Failure", "tuple", "tuple"]
    with make().iterator() as it:
        next(it)
        with pytest.raises(ElementError, match=r"float64\[2\].*float64\[3\].*padded_batch"):
            next(it)


def test_elements_of_changing_structure_name_both():
    dataset = Dataset.range(4).map(lambda n: (n, n) if n else {"n": n}).batch(2)

    with pytest.raises(ElementError, match=r"\{'n': int64\} is followed by \(int64, int64\)"):
        next(iter(dataset))


def test_a_short_last_batch_may_fail_as_well(check_states):
    check_states(lambda: Dataset.range(5).map(lambda n: np.zeros(2 + (n == 4))).batch(3))


def test_the_error_of_an_element_comes_behind_the_batches_before_it():
    with Dataset.range(10).map(failing_at(7)).batch(2).iterator() as it:
        before = [next(it).tolist() for _ in range(3)]
        with pytest.raises(TransformError, match="7 is bad"):
            next(it)
        after = [batch.tolist() for batch in it]

    assert before == [[0, 1], [2, 3], [4, 5]]
    assert after == [[6, 8], [9]]


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", None, True])
def test_a_bad_size_is_named(size):
    with pytest.raises(DatasetError, match="batch: batch_size must be an integer of at least 1"):
        Dataset.range(3).batch(size)


def test_cardinality_counts_batches():
    assert Dataset.range(10).batch(3).cardinality() == 4
    assert Dataset.range(10).batch(3, drop_remainder=True).cardinality() == 3
    assert Dataset.range(10).repeat().batch(3).cardinality() == -1
    assert Dataset.range(10).filter(lambda x: x > 3).batch(3).cardinality() == UNKNOWN


def test_splits_are_read_again_from_the_first_element_of_the_next_batch(check_states):
    log = [(0, 4), (4, 5), (8, 11), None]
    expected = [np.array([0, 1, 2]), np.array([3, 4, 8]), np.array([9, 10])]

    check_states(lambda: Dataset.range(20).batch(3), expected, logs=[log], streams={".0": 0})

"""`flat_map`: one dataset after the other, and the state in any of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, StateError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN
from tests.ops.waiting import failing_at, seconds_to_close

LENGTHS = [3, 0, 5, 1, 1, 7, 0, 0, 2, 4, 1]


def rows(n):
    return range(100 * n, 100 * n + LENGTHS[n])


def inner(n):
    return Dataset.range(100 * n, 100 * n + LENGTHS[n])


@pytest.mark.slow
def test_a_state_is_small_however_many_datasets_a_block_is_made_of(check_states):
    expected = [x for n in range(60) for x in (n, n + 1)]

    check_states(
        lambda: Dataset.range(60).flat_map(lambda n: Dataset.range(n, n + 2)),
        expected,
        blocks=(1, 64, 300),
        max_state=200,
    )


def test_errors_of_all_three_kinds_take_nothing_with_them(check_states):
    def open_inner(n):
        return inner(failing_at(3, 9)(n)).map(failing_at(0, 201, 503))

    outcome = check_states(lambda: Dataset.range(11).map(failing_at(4)).flat_map(open_inner))

    failures = [x.text for x in outcome if type(x).__name__ == "Failure"]
    assert len(failures) == 6
    assert sum("flat_map(open_inner) failed" in text for text in failures) == 2
    assert [int(x[1]) for x in outcome if isinstance(x, tuple)] == [
        x for n in range(11) for x in rows(n) if n not in (3, 4, 9) and x not in (0, 201, 503)
    ]


@pytest.mark.parametrize(
    "build",
    [
        lambda d, make: d.flat_map(make),
        lambda d, make: d.interleave(make, cycle_length=2),
        lambda d, make: d.interleave(make, cycle_length=2, num_parallel_calls=2),
    ],
)
def test_an_error_within_says_of_which_element_the_dataset_was_made(build):
    def tens(n):
        return Dataset.range(10 * n, 10 * n + 3).map(failing_at(21))

    def ragged(n):
        return Dataset.range(n + 1).map(np.zeros).batch(2)

    with pytest.raises(TransformError) as caught:
        list(build(Dataset.range(5), tens))
    assert (caught.value.operator, caught.value.number) == ("map(check)", 1)
    assert "ValueError: 21 is bad; in the dataset that " in str(caught.value)
    assert "(tens) made of its element 2 (its input was" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)

    with pytest.raises(ElementError, match=r"\(ragged\) made of its element 1\n"):
        list(build(Dataset.range(5), ragged))


def test_nothing_but_errors_ends(check_states):
    outcome = check_states(lambda: Dataset.range(5).flat_map(failing_at(*range(5))))

    assert [type(x).__name__ for x in outcome] == ["Failure"] * 5


def test_splits_are_read_again_from_the_open_dataset(check_states):
    log = [(0, 4), (6, 8), None]
    expected = [x for n in (0, 1, 2, 3, 6, 7) for x in rows(n)]

    check_states(lambda: Dataset.range(11).flat_map(inner), expected, logs=[log], streams={".0": 0})


def test_several_arguments_and_a_generator_reach_the_function():
    def make(n, m, *, rng):
        return Dataset.range(n, m).map(lambda x, r=rng.integers(1000): (x, r))

    dataset = Dataset.range(4).map(lambda n: (n, n + 2)).flat_map(make)
    with iter(dataset) as it:
        state = it.state()
        elements = list(it)

    assert elements == list(dataset.iterator(state))
    assert len({r for _, r in elements}) > 1


def test_a_restored_run_opens_only_what_was_open(counted):
    fn, made = counted(lambda n: Dataset.range(10 * n, 10 * n + 10)), counted(lambda x: x)
    dataset = Dataset.range(100).flat_map(lambda n: fn(n).map(made))
    with iter(dataset) as it:
        for _ in range(505):
            next(it)
        state = it.state()
    fn.calls.clear()
    made.calls.clear()

    with dataset.iterator(state) as it:
        assert next(it) == 505
    assert fn.calls == [50]
    assert made.calls == [505]


def test_skipping_makes_the_datasets_but_not_their_elements(counted):
    made = counted(lambda x: x)
    dataset = Dataset.range(100).flat_map(lambda n: Dataset.range(10 * n, 10 * n + 10).map(made))
    shuffled = dataset.shuffle(8, seed=1)
    with iter(shuffled) as it:
        for _ in range(500):
            next(it)
        state = it.state()
    made.calls.clear()

    with shuffled.iterator(state) as it:
        next(it)
    assert len(made.calls) <= 9


def test_no_more_of_the_outer_dataset_is_read_ahead_than_a_block_took(counted):
    fn = counted(lambda n: n)
    dataset = Dataset.range(1000).map(fn).flat_map(lambda n: Dataset.range(100_000))
    with iter(dataset) as it:
        for _ in range(1000):
            next(it)

    assert fn.calls == [0]


def test_a_search_for_elements_that_are_not_there_can_be_closed():
    started = threading.Event()

    def empty(n):
        started.set()
        return Dataset.range(0)

    it = iter(Dataset.range(1).repeat().flat_map(empty))

    seconds_to_close(it, started)


def test_an_outer_dataset_that_became_shorter_is_named():
    def make(limit):
        return Dataset.range(9).filter(lambda n: n < limit).flat_map(inner)

    with iter(make(9)) as it:
        for _ in range(12):
            next(it)
        state = it.state()

    with pytest.raises(StateError, match="ends at element 5, but it had more"):
        next(make(3).iterator(state))


def test_a_function_that_returns_no_dataset_is_told_so():
    dataset = Dataset.range(3).flat_map(lambda n: [n, n])

    with pytest.raises(
        TransformError,
        match=r"flat_map\(<lambda>\) failed at element 0.*must return a Dataset, not \[.*\(list\)",
    ):
        next(iter(dataset))


def test_a_function_that_cannot_be_called_is_named():
    with pytest.raises(DatasetError, match="flat_map: map_func must be callable, not None"):
        Dataset.range(3).flat_map(None)


def test_cardinality_is_not_known():
    assert Dataset.range(3).flat_map(inner).cardinality() == UNKNOWN
    assert Dataset.range(0).flat_map(inner).cardinality() == 0
    assert Dataset.range(3).repeat().cardinality() == INFINITE
    assert Dataset.range(3).repeat().flat_map(inner).cardinality() == UNKNOWN


def test_arrays_and_text_pass_through():
    dataset = Dataset.range(2).flat_map(
        lambda n: Dataset.from_tensor_slices((np.eye(2), ["a", "b"]))
    )

    assert [text for _, text in dataset] == ["a", "b", "a", "b"]

"""`window`: which elements are in which window, and what a window is."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, DefinitionError, ElementError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.graph.run import open_root
from tests.ops.waiting import failing_at


def windows(n, size, shift, stride, drop):
    cut = [
        list(range(n))[start:][: (size - 1) * stride + 1 : stride] for start in range(0, n, shift)
    ]
    return [window for window in cut if len(window) == size or not drop]


@pytest.mark.quick(6)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("size", "shift"), [(1, 1), (3, 3), (3, 1), (3, 2), (2, 5), (4, 7), (20, 1)]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_overlap_or_leave_gaps_and_a_state_is_exact(
    check_states, size, shift, stride, drop
):
    expected = windows(11, size, shift, stride, drop)

    def make():
        made = Dataset.range(11).window(size, shift, stride, drop)
        return made.flat_map(lambda window: window.batch(size))

    check_states(make, [np.array(window) for window in expected])
    assert Dataset.range(11).window(size, shift, stride, drop).cardinality() == len(expected)


def test_by_default_windows_follow_one_another():
    made = Dataset.range(7).window(3).flat_map(lambda window: window.batch(9))

    assert [batch.tolist() for batch in made] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_nest_gives_a_nest_of_datasets(check_states):
    def make():
        nests = Dataset.range(7).map(lambda n: (n, {"text": str(n)}))
        windows = nests.window(3, 2)
        return windows.flat_map(lambda n, rest: Dataset.zip((n.batch(3), rest["text"].batch(3))))

    outcome = check_states(make)

    assert outcome[1] == (
        "tuple",
        ("int64", (3,), "[2, 3, 4]"),
        ("object", (3,), "['2', '3', '4']"),
    )
    assert len(outcome) == 4


def test_windows_may_be_shuffled_filtered_and_read_twice(check_states):
    def make():
        windows = Dataset.range(20).window(4, 2).filter(lambda w: w.cardinality() == 4)
        return windows.shuffle(3, seed=2).flat_map(lambda w: w.concatenate(w).batch(8))

    outcome = check_states(make)

    assert len(outcome) == 9


def test_what_a_window_holds_cannot_be_written_to():
    def spoil(x):
        x[:] = -1
        return x

    dataset = Dataset.range(4).map(lambda n: np.full(2, n)).window(3, 1)

    with pytest.raises(Exception, match="read-only"):
        list(dataset.flat_map(lambda w: w.map(spoil)))


def test_a_window_cannot_be_pickled_batched_or_handed_to_a_training_loop():
    (window,) = open_root(Dataset.range(3).window(3).node, Context.local(1)).block(1)

    with pytest.raises(DefinitionError, match=r"exists only inside the pipeline.*flat_map"):
        pickle.dumps(window.node)
    with pytest.raises(ElementError, match="flat_map"):
        list(Dataset.range(6).window(2).batch(2))
    with pytest.raises(ElementError, match="flat_map"):
        list(Dataset.range(6).window(2))


def test_an_error_in_the_input_leaves_the_window_open(check_states):
    outcome = check_states(
        lambda: (
            Dataset.range(9).map(failing_at(0, 3, 4, 8)).window(3, 2).flat_map(lambda w: w.batch(3))
        )
    )

    assert [x[2] for x in outcome if isinstance(x, tuple)] == ["[1, 2, 5]", "[5, 6, 7]", "[7]"]
    assert len(outcome) == 7


def test_an_error_between_windows_is_raised_too(check_states):
    outcome = check_states(
        lambda: Dataset.range(12).map(failing_at(3)).window(2, 5).flat_map(lambda w: w.batch(2))
    )

    assert [x[2] for x in outcome if isinstance(x, tuple)] == ["[0, 1]", "[6, 7]", "[11]"]


def test_elements_of_two_structures_in_a_window_cost_that_window(check_states):
    def make():
        mixed = Dataset.range(9).map(lambda n: (n,) if n == 4 else n)
        return mixed.window(3).flat_map(lambda w: w.batch(3))

    outcome = check_states(make)

    assert [type(x).__name__ for x in outcome] == ["tuple", "Failure", "tuple"]
    with pytest.raises(ElementError, match=r"int64 is followed by \(int64,\)"):
        list(make())


def test_a_restored_run_makes_only_elements_of_the_next_window(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(100).map(fn).window(5, 3).flat_map(lambda w: w.batch(5))
    run = open_root(dataset.node, Context.local(7))
    ahead = len(run.block(20)) - 10  # at the end of a block, the window before is not left yet
    state = run.mark()(ahead)
    run.close()
    fn.calls.clear()

    run = open_root(dataset.node, Context.local(7), state)
    assert run.block(1)[0].tolist() == [30, 31, 32, 33, 34]
    run.close()
    assert ahead > 0
    assert fn.calls[0] == 30


def test_skipped_windows_make_nothing(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(400).map(fn).window(4).shuffle(5, seed=3)
    run = dataset.flat_map(lambda w: w.batch(4))
    with iter(run) as it:
        for _ in range(80):
            next(it)
        state = it.state()
    fn.calls.clear()

    with run.iterator(state) as it:
        next(it)

    assert len(fn.calls) <= 4 * 7


@pytest.mark.parametrize("name", ["size", "shift", "stride"])
@pytest.mark.parametrize("value", [0, -2, 1.5, "2"])
def test_bad_sizes_are_named(name, value):
    with pytest.raises(DatasetError, match=f"window: {name} must be an integer of at least 1"):
        Dataset.range(3).window(**({"size": 2} | {name: value}))


def test_cardinality_follows_the_input():
    assert Dataset.range(5).repeat().window(2).cardinality() == INFINITE
    assert Dataset.range(5).filter(lambda x: x > 2).window(2).cardinality() == UNKNOWN

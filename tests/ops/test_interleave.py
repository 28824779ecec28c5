"""`interleave`: the order, the state, the threads."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.node import UNKNOWN
from tests.ops.waiting import failing_at, seconds_to_close, threads, wait_until

pytestmark = pytest.mark.usefixtures("no_threads_of_other_tests")

LENGTHS = [3, 0, 5, 1, 1, 7, 0, 0, 2, 4, 1]


def model(lists, cycle, length):
    """Interleave as TensorFlow's own tests describe it."""
    waiting = [iter(each) for each in lists]
    slots = [None] * cycle
    out = []
    while waiting or any(slots):
        for i in range(cycle):
            if slots[i] is None:
                if not waiting:
                    continue
                slots[i] = waiting.pop(0)
            for _ in range(length):
                try:
                    out.append(next(slots[i]))
                except StopIteration:
                    slots[i] = None
                    break
    return out


def rows(n):
    return range(100 * n, 100 * n + LENGTHS[n])


def inner(n):
    return Dataset.range(100 * n, 100 * n + LENGTHS[n])


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize(("cycle", "length"), [(1, 1), (3, 1), (3, 2), (30, 2)])
def test_threads_change_nothing_in_the_order(check_states, cycle, length, parallel):
    expected = model(map(rows, range(11)), cycle, length)

    check_states(
        lambda: Dataset.range(11).interleave(inner, cycle, length, parallel),
        expected,
        blocks=(1, 7),
        max_state=2000,
    )
    assert not threads()


@pytest.mark.quick(1)
@pytest.mark.parametrize("parallel", [1, 3])
def test_whoever_is_ready_comes_first_but_all_come_once(check_states, parallel):
    expected = model(map(rows, range(11)), 1, 1)

    check_states(
        lambda: Dataset.range(11).interleave(inner, 3, 2, parallel, deterministic=False),
        expected,
        blocks=(1, 7),
        unordered=True,
        max_state=2000,
    )
    assert not threads()


def test_long_datasets_are_read_in_large_blocks_in_the_same_order():
    def long(n):
        return Dataset.range(10_000 * n, 10_000 * n + 997 * (int(n) % 3 + 1))

    lists = [range(10_000 * n, 10_000 * n + 997 * (n % 3 + 1)) for n in range(7)]
    for cycle, length, parallel in [(1, 1, None), (3, 1, None), (3, 4, None), (5, 7, 2)]:
        dataset = Dataset.range(7).interleave(long, cycle, length, parallel)

        assert list(dataset) == model(lists, cycle, length)


def test_the_default_cycle_does_not_depend_on_the_machine():
    dataset = Dataset.range(12)
    lists = [range(10 * n, 10 * n + 2) for n in range(12)]

    def two(n):
        return Dataset.range(10 * n, 10 * n + 2)

    assert list(dataset.interleave(two)) == model(lists, 10, 1)
    assert list(dataset.interleave(two, num_parallel_calls=3)) == model(lists, 3, 1)


@pytest.mark.slow
def test_errors_of_all_three_kinds_take_nothing_with_them(check_states):
    def open_inner(n):
        return inner(failing_at(3, 9)(n)).map(failing_at(0, 201, 503))

    def make(parallel=None, deterministic=None):
        outer = Dataset.range(11).map(failing_at(4))
        return outer.interleave(open_inner, 3, 2, parallel, deterministic)

    outcome = check_states(make, max_state=2000)
    parallel = check_states(lambda: make(2), blocks=(1, 7), max_state=2000)
    unordered = check_states(
        lambda: make(2, deterministic=False), blocks=(1, 7), unordered=True, max_state=2000
    )

    failures = [x.text for x in outcome if type(x).__name__ == "Failure"]
    assert len(failures) == 6
    assert sum("interleave(open_inner) failed" in text for text in failures) == 2
    values = [int(x[1]) for x in outcome if isinstance(x, tuple)]
    assert sorted(values) == [
        x for n in range(11) for x in rows(n) if n not in (3, 4, 9) and x not in (0, 201, 503)
    ]
    assert parallel == outcome
    assert Counter(map(repr, unordered)) == Counter(map(repr, outcome))


def test_a_function_that_returns_no_dataset_is_told_so():
    dataset = Dataset.range(3).interleave(lambda n: [n, n])

    with pytest.raises(
        TransformError,
        match=r"interleave\(<lambda>\) failed at element 0.*must return a Dataset, not \[.*list\)",
    ):
        next(iter(dataset))


@pytest.mark.parametrize("parallel", [None, 2])
def test_a_restored_run_opens_only_what_was_open(counted, parallel):
    outer, fn = counted(lambda n: n), counted(lambda n: Dataset.range(100 * n, 100 * n + 10))
    rows = counted(lambda x: x)
    dataset = Dataset.range(50).map(outer).interleave(lambda n: fn(n).map(rows), 3, 1, parallel)
    with iter(dataset) as it:
        returned = {int(next(it)) for _ in range(95)}
        state = json.loads(json.dumps(it.state()))
        rest = list(it)
    for counter in (outer, fn, rows):
        counter.calls.clear()

    with dataset.iterator(state) as it:
        assert next(it) == rest[0]
    assert min(fn.calls) >= 9
    assert not returned & set(rows.calls)
    if parallel is None:
        assert fn.calls == [11]
        assert outer.calls == [9, 10, 11]
    with dataset.iterator(state) as it:
        assert list(it) == rest


def test_closed_datasets_between_open_ones_are_skipped(counted):
    fn = counted(lambda n: Dataset.range(100 if n == 0 else 1))
    dataset = Dataset.range(1000).interleave(fn, 2)
    with iter(dataset) as it:
        for _ in range(100):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        next(it)
    assert len(fn.calls) <= 3


def test_inner_shuffles_differ_and_come_back(check_states):
    def make():
        return Dataset.range(5).interleave(lambda _: Dataset.range(9).shuffle(9), 2)

    outcome = check_states(make)

    orders = [tuple(outcome[i:18:2]) for i in range(2)]
    assert orders[0] != orders[1]


def test_splits_are_read_again_from_the_oldest_open_dataset(check_states):
    log = [(0, 4), (6, 8), None]
    expected = model(map(rows, [0, 1, 2, 3, 6, 7]), 3, 1)

    check_states(
        lambda: Dataset.range(11).interleave(inner, 3), expected, logs=[log], streams={".0": 0}
    )


def test_threads_read_several_datasets_at_once():
    together = threading.Barrier(3, timeout=10)

    def meet(x):
        together.wait()
        return x

    dataset = Dataset.range(3).interleave(
        lambda n: Dataset.range(n, n + 1).map(meet), num_parallel_calls=3
    )

    assert list(dataset) == [0, 1, 2]


def test_threads_make_datasets_ahead_of_their_turn():
    together = threading.Barrier(2, timeout=10)

    def meet(n):
        together.wait()
        return Dataset.range(n, n + 1)

    assert list(Dataset.range(6).interleave(meet, 1, num_parallel_calls=2)) == list(range(6))


def test_one_slow_dataset_does_not_hold_up_those_that_are_ready():
    go = threading.Event()

    def slow(n):
        return Dataset.range(10 * n, 10 * n + 3).map(lambda x: x if n else go.wait(10) and x)

    dataset = Dataset.range(3).interleave(slow, 3, num_parallel_calls=3, deterministic=False)
    with iter(dataset) as it:
        first = [int(next(it)) for _ in range(6)]
        go.set()
        last = [int(x) for x in it]

    assert sorted(first) == [10, 11, 12, 20, 21, 22]
    assert last == [0, 1, 2]


@pytest.mark.parametrize("deterministic", [True, False])
def test_closing_wakes_whoever_waits_and_leaves_no_thread_behind(deterministic):
    go, inside = threading.Event(), threading.Event()

    def stuck(x):
        inside.set()
        go.wait(30)
        return x

    dataset = Dataset.range(3).interleave(
        lambda n: Dataset.range(5).map(stuck), 2, 1, 2, deterministic
    )
    it = iter(dataset)

    took = seconds_to_close(it, inside)
    go.set()
    wait_until(lambda: not threads())

    assert took < 1


def test_a_dropped_run_leaves_no_thread_behind():
    dataset = Dataset.range(9).interleave(lambda n: Dataset.range(1000), num_parallel_calls=3)
    it = iter(dataset)
    next(it)
    assert threads()

    del it

    wait_until(lambda: not threads())


def test_a_shorter_outer_dataset_is_named():
    with iter(Dataset.range(9).interleave(lambda n: Dataset.range(5), 2)) as it:
        for _ in range(22):
            next(it)
        state = it.state()

    with (
        Dataset.range(5).interleave(lambda n: Dataset.range(5), 2).iterator(state) as it,
        pytest.raises(StateError, match="the outer dataset ends at element 5"),
    ):
        next(it)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cycle_length": 0}, "interleave: cycle_length"),
        ({"block_length": 0}, "interleave: block_length"),
        ({"num_parallel_calls": 0}, "interleave: num_parallel_calls"),
        ({"num_parallel_calls": -2}, "interleave: num_parallel_calls"),
        ({"map_func": 3}, "interleave: map_func must be callable, not 3"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(DatasetError, match=message):
        Dataset.range(3).interleave(**({"map_func": inner} | arguments))


def test_cardinality_is_not_known():
    assert Dataset.range(3).interleave(inner).cardinality() == UNKNOWN
    assert Dataset.range(0).interleave(inner).cardinality() == 0

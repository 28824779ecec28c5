"""`prefetch`: a thread that is ahead, bounded, and gone when it should be."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import Closed, DatasetError, TransformError
from penstock.graph.run import open_root
from penstock.ops import prefetch
from tests.ops.waiting import failing_at, seconds_to_close, threads, wait_until

pytestmark = pytest.mark.usefixtures("no_threads_of_other_tests")


@pytest.mark.quick(1)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_it_changes_nothing_and_a_state_is_exact(check_states, size):
    check_states(lambda: Dataset.range(20).prefetch(size), list(range(20)), blocks=(1, 7))
    assert not threads()


def test_errors_keep_their_places(check_states):
    def make():
        return Dataset.range(20).map(failing_at(0, 7, 8, 19)).prefetch(3).batch(2).prefetch(1)

    outcome = check_states(make, blocks=(1, 7))

    assert sum(type(x).__name__ == "Failure" for x in outcome) == 4
    assert not threads()


def test_an_error_of_the_run_itself_may_be_tried_again():
    run = open_root(Dataset.range(5).prefetch(2).node, Context.local(1))
    source = run._upstream
    block, calls = source.block, []

    def fail_once(n):
        calls.append(n)
        if len(calls) == 2:
            raise Closed("for a while")
        return block(n)

    source.block = fail_once
    out = []
    with pytest.raises(Closed, match="for a while"):
        while True:
            out += run.block(1)
    while got := run.block(1):
        out += got
    run.close()

    assert out == [0, 1, 2, 3, 4]


def test_the_buffer_is_filled_again_and_never_holds_more_than_its_size():
    asked, made, excess = [0], [], []

    def fn(x):
        made.append(x)
        excess.append(len(made) - asked[0] > 5)
        return x

    run = open_root(Dataset.range(1000).map(fn).prefetch(5).node, Context.local(1))
    taken = 0
    for n in (1, 1, 3, 2, 5, 1, 1, 1, 4):
        asked[0] = taken + n
        taken += len(run.block(n))
        asked[0] = taken
        wait_until(lambda: len(made) == taken + 5)
    run.close()

    assert not any(excess)


def test_the_thread_starts_with_the_first_element():
    it = iter(Dataset.range(10).prefetch(3))
    assert not threads()

    next(it)

    assert len(threads()) <= 1
    it.close()
    assert not threads()


def test_skipping_before_the_start_makes_nothing(counted):
    fn = counted(lambda x: x)
    run = open_root(Dataset.range(100).map(fn).prefetch(4).node, Context.local(1))

    assert run.skip(50) == 50
    assert not fn.calls
    assert run.block(1) == [50]
    run.close()


def test_closing_ends_a_thread_that_waits_for_room():
    it = iter(Dataset.range(10**9).prefetch(3).batch(1).prefetch(2))
    next(it)
    began = time.monotonic()

    it.close()

    assert time.monotonic() - began < 1
    assert not threads()


def test_closing_wakes_whoever_waits_for_an_element_that_does_not_come():
    go, inside = threading.Event(), threading.Event()

    def stuck(x):
        inside.set()
        go.wait(30)
        return x

    # Two threads: the outer one waits for the inner one, which is stuck.
    it = iter(Dataset.range(10).map(stuck).prefetch(2).prefetch(2))

    took = seconds_to_close(it, inside)
    wait_until(lambda: len(threads()) == 1)
    go.set()
    wait_until(lambda: not threads())

    assert took < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda slow: slow.shuffle(10**6).prefetch(1),
        lambda slow: slow.batch(10**6).prefetch(1),
        lambda slow: slow.window(10**6).flat_map(lambda w: w).prefetch(1),
        lambda slow: slow.batch(1).rebatch(10**6).prefetch(1),
    ],
)
def test_closing_stops_an_input_that_fills_a_large_buffer(make):
    going = threading.Event()

    def slow(x):
        going.set()
        time.sleep(0.005)
        return x

    it = iter(make(Dataset.range(10**6).map(slow)))
    reader = threading.Thread(target=lambda: pytest.raises(Closed, next, it))
    reader.start()
    assert going.wait(10)
    began = time.monotonic()
    it.close()
    reader.join(10)

    wait_until(lambda: not threads())
    assert time.monotonic() - began < 1


def test_a_dropped_iterator_ends_its_thread_and_closes_the_input():
    closed = threading.Event()
    run = open_root(Dataset.range(10**9).prefetch(3).node, Context.local(1))
    close = run._upstream.close
    run._upstream.close = lambda: (closed.set(), close())
    run.block(1)
    gone = weakref.ref(run)

    del run
    gc.collect()

    assert gone() is None
    assert closed.wait(10)
    wait_until(lambda: not threads())


def test_an_iterator_in_a_dropped_pipeline_ends_its_thread():
    it = iter(Dataset.range(10**9).prefetch(3).map(lambda x: x))
    next(it)

    del it

    wait_until(lambda: not threads())


def test_the_end_of_the_input_ends_the_thread():
    it = iter(Dataset.range(10).prefetch(30))

    assert len(list(it)) == 10
    wait_until(lambda: not threads())
    it.close()


def test_an_exit_in_the_function_is_raised_where_the_element_is_asked_for():
    def leave(x):
        raise SystemExit(3)

    it = iter(Dataset.range(3).map(leave).prefetch(2))

    with pytest.raises(TransformError, match="element 0: SystemExit: 3"):
        next(it)
    it.close()


def test_the_error_says_where_it_was_raised():
    with (
        Dataset.range(3).map(failing_at(1)).prefetch(2).iterator() as it,
        pytest.raises(TransformError, match="1 is bad") as caught,
    ):
        list(it)

    assert "check" in str(caught.value.remote_traceback)


def test_a_restored_run_makes_what_was_buffered_and_nothing_before_it(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(100).map(fn).prefetch(10)
    with iter(dataset) as it:
        for _ in range(30):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        assert next(it) == 30
    assert min(fn.calls) == 30


def test_two_iterators_read_alternately():
    dataset = Dataset.range(500).prefetch(3)

    with iter(dataset) as one, iter(dataset) as other:
        assert [(int(a), int(b)) for a, b in zip(one, other, strict=True)] == [
            (n, n) for n in range(500)
        ]


@pytest.mark.parametrize("size", [0, -2, 1.5])
def test_a_bad_size_is_named(size):
    with pytest.raises(DatasetError, match="prefetch: buffer_size must be an integer of at least"):
        Dataset.range(3).prefetch(size)


def test_cardinality_is_that_of_the_input():
    assert Dataset.range(7).prefetch(3).cardinality() == 7


def test_what_ends_the_thread_outside_of_the_input_is_raised_and_nobody_waits(monkeypatch):
    def broken(_lane, _handed):
        raise MemoryError("no room")

    monkeypatch.setattr(prefetch._Lane, "put", broken)
    with iter(Dataset.range(5).prefetch(2)) as it:
        for _ in range(2):
            with pytest.raises(MemoryError, match="no room"):
                next(it)


def test_a_mark_that_ends_its_thread_is_raised_where_it_is_used(monkeypatch):
    def leave():
        raise SystemExit(3)

    with iter(Dataset.range(5).prefetch(2)) as it:
        monkeypatch.setattr(it._reading._run._upstream, "mark", leave)
        with pytest.raises(SystemExit):
            next(it)


def test_a_thread_that_cannot_be_started_is_raised_and_tried_again(monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with iter(Dataset.range(3).prefetch(2)) as it:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="start new thread"):
                next(it)

        assert list(it) == [0, 1, 2]


@pytest.mark.slow
def test_a_close_that_comes_between_the_look_and_the_wait_ends_the_wait():
    """As a signal handler's does: its thread is awake, and is not woken any more."""
    lane = prefetch._Lane(2)
    find_empty, gate = lane._find_empty, threading.Event()
    wait = lane._changed.wait

    def closed_before(timeout=None):
        lane.close()
        lane._changed.wait = wait
        return wait(timeout)

    lane._find_empty = lambda: (find_empty(), setattr(lane._changed, "wait", closed_before))
    taking = threading.Thread(
        target=lambda: (pytest.raises(Closed, lane.take), gate.set()), daemon=True
    )
    taking.start()

    assert gate.wait(20)
    taking.join()

"""`ThreadPool`: threads that come when they are needed, and go."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from penstock import Dataset
from penstock.errors import Closed
from penstock.executors.thread_pool import ThreadPool


def threads():
    return [t for t in threading.enumerate() if t.name == "penstock-test"]


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in ten seconds"
        time.sleep(0.001)


@pytest.fixture
def crew():
    crew = ThreadPool(3, "penstock-test")
    yield crew
    crew.close()
    crew.join(10)
    assert not threads()


def test_calls_are_made_and_their_outcomes_kept(crew):
    def fail():
        raise KeyError("x")

    done, failed = crew.submit(lambda: 7), crew.submit(fail)

    assert done.result(10) == 7
    assert isinstance(failed.exception(10), KeyError)


def test_there_are_as_many_threads_as_calls_but_not_more_than_the_limit(crew):
    assert not threads()
    go = threading.Event()

    calls = [crew.submit(lambda: go.wait(10))]
    assert len(threads()) == 1
    calls += [crew.submit(lambda: go.wait(10)) for _ in range(7)]
    assert len(threads()) == 3

    go.set()
    assert all(call.result(10) for call in calls)


def test_one_thread_is_enough_for_one_call_after_the_other(crew):
    for _ in range(20):
        crew.submit(lambda: None).result(10)

    assert len(threads()) <= 2  # a thread may not have noticed yet that its call is done


def test_closing_wakes_who_waits_and_drops_what_has_not_begun():
    crew = ThreadPool(1, "penstock-test")
    go, begun, later = threading.Event(), threading.Event(), []
    stuck = crew.submit(lambda: (begun.set(), go.wait(10)))
    never = crew.submit(lambda: later.append(1))
    assert begun.wait(10)

    crew.close()
    crew.close()

    with pytest.raises(Closed):
        stuck.result(10)
    with pytest.raises(Closed):
        never.result(10)
    with pytest.raises(Closed):
        crew.submit(lambda: None)
    crew.join(0.01)
    assert len(threads()) == 1
    go.set()
    crew.join(10)
    assert not threads()
    assert not later


def test_a_crew_that_is_dropped_goes():
    crew = ThreadPool(2, "penstock-test")
    crew.submit(lambda: None).result(10)

    del crew

    wait_until(lambda: not threads())


def test_a_thread_that_cannot_be_started_is_missing_and_the_others_do_its_work(monkeypatch):
    crew, start = ThreadPool(3, "penstock-test"), threading.Thread.start

    def refuse(thread):
        if threads():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    calls = [crew.submit(lambda: time.sleep(0.001)) for _ in range(20)]

    assert [call.result(10) for call in calls] == [None] * 20
    assert len(threads()) == 1
    crew.close()
    crew.join(10)


def test_without_a_single_thread_nothing_is_submitted(monkeypatch, crew):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            crew.submit(lambda: 1)

    assert crew.submit(lambda: 2).result(10) == 2


def test_a_crew_that_is_closed_in_the_middle_of_a_submit_leaves_nobody_waiting(monkeypatch, crew):
    """As by a signal handler, which runs in the thread that submits."""
    hire = crew._start_thread
    monkeypatch.setattr(crew, "_start_thread", lambda: (crew.close(), hire()))

    with pytest.raises(Closed):
        crew.submit(lambda: None).result(10)


def in_fork(call):
    """Return what *call* returns in a forked child, as text, or the error that it raises."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            said = str(call())
        except BaseException as exc:  # noqa: BLE001  it is told
            said = f"{type(exc).__name__}: {exc}"
        os.write(into, said.encode())
        os._exit(0)
    os.close(into)
    with open(out) as told:  # noqa: PTH123  a descriptor
        said = told.read()
    os.waitpid(pid, 0)
    return said


def same(x):
    return x


def inner(_):
    return Dataset.range(9)


FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

SOURCE = Dataset.range(100)
THREADED = {
    "prefetch": SOURCE.prefetch(2),
    "prefetch, map": SOURCE.prefetch(2).map(same),
    "map": SOURCE.map(same, num_parallel_calls=2),
    "map in processes": SOURCE.map(same, num_parallel_calls=2, executor="process"),
    "interleave": SOURCE.interleave(inner, cycle_length=2, num_parallel_calls=2),
}


@FORKS
@pytest.mark.parametrize("name", THREADED)
def test_a_child_that_goes_on_where_its_parent_has_threads_is_told_why_it_cannot(name):
    with iter(THREADED[name]) as elements:
        next(elements)
        said = in_fork(lambda: list(elements))
        rest = list(elements)

    assert said.startswith(f"{Closed.__name__}: this iterator belongs to process {os.getpid()}")
    assert "make the iterator in the child" in said
    assert len(rest) >= 99


@FORKS
def test_a_child_makes_an_iterator_of_its_own():
    with iter(THREADED["prefetch"]) as elements:
        next(elements)

        assert in_fork(lambda: len(list(THREADED["prefetch"]))) == "100"


@FORKS
def test_a_child_goes_on_with_its_copy_where_there_are_no_threads():
    with iter(SOURCE.map(same)) as elements:
        next(elements)

        assert in_fork(lambda: int(next(elements))) == "1"


@FORKS
@pytest.mark.parametrize("name", THREADED)
def test_a_child_goes_on_with_an_iterator_that_had_begun_nothing(name):
    with iter(THREADED[name]) as elements:
        assert in_fork(lambda: len(list(elements))) == str(len(list(THREADED[name])))

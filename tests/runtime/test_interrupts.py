import functools
import signal
import sys
import threading
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from penstock.runtime import interrupts
from penstock.runtime.interrupts import (
    InterruptibleCondition,
    breathe,
    interruptible,
    is_interrupt,
    outcome,
    uninterrupted,
)


class Struck(Exception):
    pass


def strike():
    signal.raise_signal(signal.SIGUSR1)


@contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def raising(*_):
    raise Struck


class Source:
    """Gives what *call* returns, as a dataset's iterator gives elements."""

    def __init__(self, call):
        self.call = call

    def __iter__(self):
        return self

    def __next__(self):
        return uninterrupted(self.call)


def test_a_handler_that_comes_in_a_section_runs_behind_it_and_the_result_is_not_lost():
    done, got = [], []

    def change():
        done.append("begun")
        strike()
        done.append("ended")
        return "made"

    with handled_by(raising), pytest.raises(Struck):
        got.extend(Source(change))  # in C: Python has no step in which it could lose an element

    assert done == ["begun", "ended"]
    assert got == ["made"]


def test_an_error_comes_out_before_what_the_handler_raises():
    caught = []

    def fail():
        strike()
        raise ValueError

    with handled_by(raising), pytest.raises(Struck):
        try:
            uninterrupted(fail)
        except ValueError:
            caught.append("error")

    assert caught == ["error"]


def test_where_a_section_is_interruptible_a_handler_runs_at_once():
    done = []

    def change():
        try:
            interruptible(strike)
            done.append("behind")
        except Struck as exc:
            done.append(is_interrupt(exc))
            strike()  # here, it waits again
            done.append("undone")
            raise

    with handled_by(raising), pytest.raises(Struck):  # the second one
        try:
            uninterrupted(change)
        except Struck:  # the first one
            done.append("a step at which Python handles signals")

    assert done[:2] == [True, "undone"]


def test_a_signal_that_came_is_handled_where_the_section_breathes():
    done = []

    def change():
        strike()
        done.append("before")
        breathe()
        done.append("behind")

    with handled_by(raising), pytest.raises(Struck):
        uninterrupted(change)
        done.append("a step at which Python handles signals")

    assert done == ["before"]


def test_a_section_in_a_section_does_not_end_it():
    done = []

    def change():
        uninterrupted(strike)
        done.append("behind")

    with handled_by(raising), pytest.raises(Struck):
        uninterrupted(change)
        done.append("a step at which Python handles signals")

    assert done[0] == "behind"


def test_behind_a_section_the_handler_of_ctrl_c_is_pythons_own_again():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        seen = uninterrupted(lambda: signal.getsignal(signal.SIGINT))

        assert seen is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_behind_a_section_another_handler_runs_as_before():
    with handled_by(raising):
        uninterrupted(bool)

        with pytest.raises(Struck):
            strike()


@pytest.mark.parametrize("sections", [1, 2])
def test_a_handler_that_calls_the_one_before_it_reaches_that(sections):
    calls = []

    def chain():
        before = signal.getsignal(signal.SIGUSR1)

        def chained(*given):
            calls.append("chained")
            before(*given)

        signal.signal(signal.SIGUSR1, chained)

    with handled_by(raising):
        uninterrupted(functools.partial(interruptible, chain))
        for _ in range(sections - 1):
            uninterrupted(bool)
        with pytest.raises(Struck):
            strike()

    assert calls == ["chained"]


def test_a_result_is_not_lost_to_a_signal_that_comes_while_a_section_ends(monkeypatch):
    class Striking:
        """The module, with a signal right before each handler is set."""

        getsignal = staticmethod(signal.getsignal)

        @staticmethod
        def signal(*given):
            if ends:
                strike()
            return signal.signal(*given)

    ends, got = [], []
    monkeypatch.setattr(interrupts, "_signal", Striking)
    others = (signal.SIGINT, signal.default_int_handler), (signal.SIGUSR2, print)
    before = [(number, signal.signal(number, handler)) for number, handler in others]
    try:
        with handled_by(raising), pytest.raises(Struck):
            got.extend(Source(lambda: ends.append(True) or "made"))
    finally:
        for number, handler in before:
            signal.signal(number, handler)

    assert got == ["made"]


def test_an_error_of_a_handler_that_strikes_before_a_section_begins_comes_out(monkeypatch):
    class Striking:
        getsignal = staticmethod(signal.getsignal)

        @staticmethod
        def signal(*given):
            strike()
            return signal.signal(*given)

    def failing(*_):
        raise ValueError

    monkeypatch.setattr(interrupts, "_signal", Striking)
    with handled_by(failing), pytest.raises(ValueError):
        uninterrupted(bool)


def test_a_handler_that_a_function_sets_stays_and_what_it_raises_is_the_functions_own():
    caught = []

    def change():
        signal.signal(signal.SIGUSR1, raising)
        try:
            interruptible(strike)
        except Struck as exc:
            caught.append(is_interrupt(exc))

    with handled_by(lambda *_: None):
        uninterrupted(change)

        assert signal.getsignal(signal.SIGUSR1) is raising
    assert caught == [False]


def test_another_thread_has_no_sections():
    seen = []
    with handled_by(raising):
        look = functools.partial(signal.getsignal, signal.SIGUSR1)
        thread = threading.Thread(target=lambda: seen.append(uninterrupted(look)))
        thread.start()
        thread.join()

    assert seen == [raising]


def test_a_wait_that_is_interrupted_leaves_its_lock_free():
    changed = InterruptibleCondition()

    def wait():
        with changed:
            changed.wait(60)

    with handled_by(raising), pytest.raises(Struck):
        threading.Timer(0.05, strike_main).start()
        uninterrupted(wait)

    free = []
    thread = threading.Thread(target=lambda: free.append(changed.acquire(blocking=False)))
    thread.start()
    thread.join()
    assert free == [True]


def test_a_condition_wakes_who_waits():
    changed, woken = InterruptibleCondition(), []

    def wait():
        with changed:
            woken.append(changed.wait(60))

    thread = threading.Thread(target=wait)
    thread.start()
    while not changed._waiters:
        thread.join(0.001)
    with changed:
        changed.notify_all()
    thread.join(60)

    assert woken == [True]


def test_a_wait_for_a_future_that_is_interrupted_leaves_that_to_be_set():
    future = Future()
    with handled_by(raising), pytest.raises(Struck):
        threading.Timer(0.05, strike_main).start()
        uninterrupted(lambda: outcome(future, 60))

    thread = threading.Thread(target=lambda: future.set_result("there"))
    thread.start()
    thread.join(60)

    assert outcome(future) == "there"


def test_an_outcome_has_its_time():
    with pytest.raises(TimeoutError):
        outcome(Future(), 0.01)


def strike_main():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


class Handler:
    def __call__(self, *_):
        sys.exit("told to")

    def stop(self, *_):
        sys.exit("told to")


def stop(*_, code=1):
    sys.exit(code)


HANDLERS = [stop, functools.partial(stop, code=2), Handler(), Handler().stop, lambda *_: sys.exit()]


@pytest.mark.parametrize("handler", HANDLERS)
def test_an_exit_out_of_a_handler_is_for_the_process(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SystemExit) as told:
            signal.raise_signal(signal.SIGUSR1)
        assert is_interrupt(told.value)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exit_of_the_function_itself_is_its_error():
    with pytest.raises(SystemExit) as told:
        stop()

    assert not is_interrupt(told.value)


def test_ctrl_c_is_for_the_process_and_in_a_process_that_ignores_it_nothing_is():
    assert is_interrupt(KeyboardInterrupt())

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert not is_interrupt(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_no_signal_strikes():
    found = []
    thread = threading.Thread(target=lambda: found.append(is_interrupt(KeyboardInterrupt())))
    thread.start()
    thread.join()

    assert found == [False]


def test_errors_are_the_functions():
    assert not is_interrupt(ValueError())

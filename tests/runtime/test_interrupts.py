import functools
import signal
import sys
import threading

import pytest

from penstock.runtime.interrupts import is_interrupt


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

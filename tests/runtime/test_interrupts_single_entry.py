"""A lock that refuses the thread that has it already."""

import threading

import pytest

from penstock.errors import Reentered
from penstock.runtime.interrupts import SingleEntry


def test_a_thread_that_is_inside_is_refused_and_stays_inside():
    lock = SingleEntry()

    with lock, pytest.raises(Reentered, match="set a flag"), lock:
        pass

    with lock:  # what was refused left nothing behind
        pass


def test_another_thread_waits_until_the_first_is_out():
    lock, seen = SingleEntry(), []

    def second():
        with lock:
            seen.append("second")

    with lock:
        thread = threading.Thread(target=second)
        thread.start()
        seen.append("first")
    thread.join()

    assert seen == ["first", "second"]

"""A function's calls move to processes and back, and give the same elements and errors there."""

from __future__ import annotations

import logging
import os
import threading

import numpy as np
import pytest

from penstock.errors import TransformError
from penstock.executors.movable_function import MovableFunction

pytestmark = pytest.mark.usefixtures("function_processes_end")


def place(x):
    return x, os.getpid()


def fails_at_three(x):
    if x == 3:
        raise ValueError("three")
    return 2 * x


@pytest.fixture
def moved():
    made = []

    def make(fn):
        function = MovableFunction.of(fn, "map(fn)", 0)
        made.append(function)
        return function

    yield make
    for function in made:
        function.done()


def test_calls_are_made_here_at_first_then_elsewhere_and_here_again(moved):
    function = moved(place)
    places = []
    for to_processes in (False, True, False):
        function.move(to_processes=to_processes)
        out, failed = function.call_block(list(np.arange(1, 3)), 0)
        assert failed is None
        assert [int(x) for x, _ in out] == [1, 2]
        places.append({int(pid) for _, pid in out})

    assert places[0] == places[2] == {os.getpid()}
    assert os.getpid() not in places[1]


def test_a_copy_moves_with_the_first(moved):
    function = moved(place)
    copy = function.copy()
    function.move(to_processes=True)

    (_, pid), *_ = copy.call_block([np.int64(1)], 0)[0]

    assert int(pid) != os.getpid()
    assert function.callers == 1
    copy.done()
    assert function.callers == 0


def test_an_error_has_the_same_number_and_words_in_both(moved):
    function = moved(fails_at_three)
    seen = []
    for to_processes in (False, True):
        function.move(to_processes=to_processes)
        out, failed = function.call_block(list(np.arange(1, 5)), 10)
        assert isinstance(failed, TransformError)
        seen.append(([int(x) for x in out], str(failed).partition("\n")[0]))

    assert seen[0] == seen[1]
    assert "12" in seen[0][1]


def test_what_cannot_travel_goes_on_here_and_it_is_said_once(moved, caplog):
    lock = threading.Lock()

    def guarded(x):
        with lock:
            return x

    function = moved(guarded)
    function.move(to_processes=True)
    with caplog.at_level(logging.WARNING, "penstock.autotune"):
        for _ in range(2):
            out, failed = function.call_block(list(np.arange(1, 3)), 0)
            assert (list(map(int, out)), failed) == ([1, 2], None)

    assert function.failed
    assert len(caplog.records) == 1
    assert "map(fn)" in caplog.text


def test_only_what_is_computed_here_is_counted(moved):
    def busy(x):
        return sum(range(20_000)) + x

    function = moved(busy)
    function.call_block([np.int64(1)] * 20, 0)
    here = function.take_seconds()
    function.move(to_processes=True)
    function.call_block([np.int64(1)] * 20, 0)

    assert here > 0
    assert function.take_seconds() == 0

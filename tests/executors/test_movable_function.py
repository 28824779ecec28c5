"""A function's calls move to processes and back, and give the same elements and errors there."""

from __future__ import annotations

import logging
import os
import signal
import threading

import numpy as np
import pytest

from penstock.engine.rows import Rows
from penstock.errors import TransformError, Unavailable
from penstock.executors.batch_memory import BatchMemory, Room
from penstock.executors.movable_function import MovableFunction
from penstock.executors.process_pool import ProcessPool
from penstock.frames.row_layout import RowLayout

pytestmark = pytest.mark.usefixtures("function_processes_end")


def place(x):
    return x, os.getpid()


def image(x):
    return np.full(1000, x)


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


def test_results_go_where_they_are_to_go_only_from_processes(moved):
    function = moved(image)
    memory = BatchMemory(RowLayout.of(image(0), 4), image(0), 1)
    room = Room(memory.place(), 0, 4)
    kinds = []
    for to_processes in (False, True):
        function.move(to_processes=to_processes)
        assert function.places is to_processes
        (part,), failed = function.call_into(list(np.arange(4)), 0, [room])
        assert failed is None
        assert [int(x[0]) for x in part] == [0, 1, 2, 3]
        kinds.append(type(part))
    memory.close()

    assert kinds == [list, Rows]


def test_a_process_that_something_ends_costs_nothing(moved, tmp_path):
    def dies_once(x):
        if x == 3 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * x

    function = moved(dies_once)
    function.move(to_processes=True)

    out, failed = function.call_block(list(np.arange(6)), 0)

    assert failed is None
    assert [int(x) for x in out] == [0, 2, 4, 6, 8, 10]


def test_where_there_is_no_other_process_for_one_that_ended_the_calls_are_made_here(
    moved, monkeypatch, caplog
):
    mine = os.getpid()

    def dies_elsewhere(x):
        if os.getpid() != mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * x

    function = moved(dies_elsewhere)
    function.move(to_processes=True)
    taken, take = [], ProcessPool.take

    def none_but_the_first(pool, key):
        taken.append(key)
        if len(taken) > 1:
            raise Unavailable("no process can be started")
        return take(pool, key)

    monkeypatch.setattr(ProcessPool, "take", none_but_the_first)
    out, failed = function.call_block(list(np.arange(6)), 0)

    assert failed is None
    assert [int(x) for x in out] == [0, 2, 4, 6, 8, 10]
    assert function.failed
    assert "no process can be started" in caplog.text


@pytest.mark.slow
def test_an_element_that_ends_each_process_is_an_error(moved):
    def dies(x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    function = moved(dies)
    function.move(to_processes=True)

    out, failed = function.call_block(list(np.arange(6)), 0)

    assert [int(x) for x in out] == [0, 1, 2]
    assert "SIGKILL" in str(failed)


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

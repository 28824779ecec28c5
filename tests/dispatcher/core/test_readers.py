"""Readers as messages name them: by host, process and rank."""

import logging

from penstock.protocol.control import TaskReport, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet
from penstock_dispatcher import fact_log
from penstock_dispatcher.core import scheduler
from penstock_dispatcher.core.events import (
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.dispatcher.core.driver import VERSIONS, DrivenCore

ONE, TWO = ReaderProcess("a", 7, 1), ReaderProcess("b", 8)


class Life(DrivenCore):
    """A core with one dataset, and readers that send heartbeats."""

    def __init__(self):
        super().__init__(SplitProviderSpec((".0",), 100))

    def open(self):
        return self.opens().iteration


def test_a_reader_is_known_by_its_process_also_after_a_restart():
    life = Life()
    iteration = life.open()
    life.beat(iteration, "r", process=ONE)
    again = DispatcherState()
    for fact in life.facts:
        again.apply(fact)

    (stats,) = DispatcherCore(again, CoreSettings(), 0.0).stats(0.0).iterations

    assert [reader.process for reader in stats.readers] == [ONE]


def test_the_log_names_readers_that_join_and_that_expire(caplog):
    life = Life()
    iteration = life.open()
    life.beat(iteration, "r", process=ONE)
    life.wait(40)

    with caplog.at_level(logging.INFO, "penstock.dispatcher"):
        for fact in life.facts:
            fact_log.log_fact(fact, life.core.state)

    lines = [record.getMessage() for record in caplog.records]
    assert lines[-2:] == [
        "the reader on host a, pid 7, rank 1 reads job j (repetition 1)",
        "the reader on host a, pid 7, rank 1 expired: it read job j (repetition 1)",
    ]


def test_what_silent_readers_have_unacked_is_in_views_and_counters_with_their_processes():
    life = Life()
    iteration = life.open()
    here = life.beat(iteration, "here").reader
    dead = [life.beat(iteration, f"r{i}", process=ReaderProcess("a", i)).reader for i in range(6)]
    life.wait(2)
    assert life.beat(iteration, "here", here).held_by == ""
    life.wait(1)
    assert life.beat(iteration, "here", here).held_by == "", "there is nothing to hold"
    life.tell(WorkerHeartbeat("w", 1, -1, versions=VERSIONS))
    life.wait(0.25)

    said = life.beat(iteration, "here", here).held_by
    (counted,) = life.core.stats(life.now).iterations

    assert said.startswith(
        f"elements may be unacked at reader {dead[0]} (host a, pid 0; silent 3.2 s"
    )
    assert said.count("host a") == 4
    assert said.endswith("; and by 2 more silent readers")
    assert counted.held_by == said

    assert life.beat(iteration, "r0", dead[0]).held_by == ""
    life.wait(0.25)
    said = life.beat(iteration, "here", here).held_by
    assert f"reader {dead[0]} " not in said
    assert said.endswith("; and by 1 more silent reader")


def test_a_reader_says_itself_how_much_of_all_tasks_is_unacked():
    life = Life()
    iteration = life.open()
    life.tell(WorkerHeartbeat("w", 1, -1, versions=VERSIONS))
    here = life.beat(iteration, "here").reader
    other = life.beat(iteration, "other").reader
    life.beat(iteration, "other", other, unacked=7)
    life.wait(2)
    life.beat(iteration, "here", here)
    life.wait(1)

    said = life.beat(iteration, "here", here).held_by

    assert said.startswith(f"7 elements are unacked at reader {other} (silent 3.0 s")


def test_views_tell_one_life_of_a_dispatcher_from_another():
    first, second = Life(), Life()
    second.core.ctx.life += 1

    lives = [life.beat(life.open(), "r").life for life in (first, first, second)]

    assert lives[0] == lives[1] == 1_800_000_000_000_000
    assert lives[2] != lives[0]


def test_of_many_reports_that_a_task_waits_for_the_last_one_has_it_scheduled(monkeypatch):
    scheduled, right = [], scheduler.schedule
    life = Life()
    iteration = life.open()
    life.tell(WorkerHeartbeat("w", 1, -1, versions=VERSIONS))
    ids = {name: life.beat(iteration, name).reader for name in "abcdef"}
    life.tell(WorkerHeartbeat("v", 1, -1, versions=VERSIONS))
    life.tell(WorkerDisconnected("w", 1))
    life.tell(WorkerDead("w", 1))
    tasks = life.core.state.iterations[iteration].tasks
    (task,) = (name for name, one in tasks.items() if one.is_unassigned)

    monkeypatch.setattr(scheduler, "schedule", lambda *args: (scheduled.append(1), right(*args))[1])
    for name, reader in ids.items():
        life.beat(iteration, name, reader, reports={task: TaskReport(2, AckedSet())})
        assert (tasks[task].attempt == 2) == (name == "f")
        assert len(scheduled) == (name == "f")

"""A worker's slots are divided among its jobs: in so many processes each may call functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.protocol.control import Assignment, TaskAssignment
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Codec, DatasetId, IterationId, TaskId, WorkerId
from penstock_worker.core.events import RunnerLost, SendToRunner
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import RunEnded, SetProcesses


def whole(task, job):
    """Return a task that is alone of its *job* here."""
    return TaskAssignment(TaskId(task), 0, 1, IterationId(job), DatasetId("d"), 0, Codec.NONE)


def filling(task, job):
    """Return one of the tasks of a *job* that fill slots."""
    return replace(whole(task, job), logs=(SplitLog(),))


class Worker:
    """A worker's core, and what the runner of each task knows."""

    def __init__(self, slots):
        self.core = WorkerCore(WorkerId("host:1"), 7, None, 10**9, slots=slots)
        self.revision = 0
        self.told = {}

    def assign(self, *tasks):
        self.revision += 1
        self.do(Assignment(self.revision, 7, tasks, {}, 1.0))
        return [self.told.get(attempt.run, 1) for attempt in self.core.attempts.values()]

    def do(self, event, now=0.0):
        for effect in self.core.handle(event, now):
            if isinstance(effect, SendToRunner) and isinstance(effect.command, SetProcesses):
                self.told[effect.command.run] = effect.command.processes


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_a_job_alone_may_have_all_slots(slots):
    assert Worker(slots).assign(whole(1, 1)) == [slots]


def test_jobs_have_equal_parts_and_what_is_over_goes_to_the_first():
    worker = Worker(5)

    assert worker.assign(whole(1, 1), whole(2, 2)) == [3, 2]
    assert worker.assign(whole(1, 1), whole(2, 2), whole(3, 3)) == [2, 2, 1]
    assert worker.assign(whole(1, 1), whole(3, 3)) == [3, 2]
    assert worker.assign(whole(3, 3)) == [5]


def test_tasks_of_one_job_divide_its_part():
    assert Worker(8).assign(whole(1, 1), whole(2, 1), whole(3, 2)) == [2, 2, 4]


def test_there_is_one_at_least_however_many_jobs_there_are():
    assert Worker(2).assign(*(whole(task, task) for task in range(1, 6))) == [1] * 5


def test_a_task_that_fills_a_slot_has_that_one_and_its_job_has_a_part():
    assert Worker(4).assign(filling(1, 1), filling(2, 1), whole(3, 2)) == [1, 1, 2]


def test_what_has_ended_leaves_its_part_to_others():
    worker = Worker(4)
    worker.assign(whole(1, 1), whole(2, 2))

    worker.do(RunEnded(1, 0))

    assert worker.told == {1: 2, 2: 4}


def test_a_runner_that_takes_over_is_told():
    worker = Worker(4)
    worker.assign(whole(1, 1))

    worker.do(RunnerLost(1, "killed"))

    assert worker.told == {1: 4, 2: 4}

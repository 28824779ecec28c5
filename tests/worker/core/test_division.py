"""A worker's slots are divided among its jobs: in so many processes each may call functions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import Assignment, TaskAssignment
from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import (
    Codec,
    DatasetId,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import RunnerLost, SendToRunner, StreamClosed, StreamOpened, Tick
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import RunEnded, SetProcesses


def whole(task, job):
    """Return a task that is alone of its *job* here."""
    return TaskAssignment(TaskId(task), 0, 1, IterationId(job), DatasetId("d"), 0, Codec.NONE)


def filling(task, job):
    """Return one of the tasks of a *job* that fill slots."""
    return replace(whole(task, job), logs=(SplitLog(),))


def reads(stream, task):
    """Return that a reader of its own opens this stream."""
    request = Subscribe(ReaderId(stream), TaskId(task), 1, 1, NOTHING_ACKED, NO_RANGES, 10**6)
    return StreamOpened(stream, request)


class Worker:
    """A worker's core, and what the runner of each task knows."""

    def __init__(self, slots):
        self.core = WorkerCore(WorkerId("host:1"), 7, None, 10**9, slots=slots)
        self.revision = 0
        self.told = {}

    def assign(self, *tasks, readers=None):
        self.revision += 1
        self.do(Assignment(self.revision, 7, tasks, readers or {}, 1.0))
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
    worker.do(Tick())

    assert worker.told == {1: 2, 2: 4}


def test_a_job_that_all_its_readers_have_left_leaves_its_part_to_others_until_one_comes():
    worker = Worker(4)
    tasks = whole(1, 1), whole(2, 2)
    worker.assign(*tasks)
    worker.do(reads(1, task=1))
    worker.do(reads(2, task=2))
    worker.do(Tick())
    assert worker.told == {1: 2, 2: 2}

    worker.do(StreamClosed(2))
    worker.assign(*tasks, readers={ReaderId(2): ReaderStatus.LEFT})
    worker.do(Tick())
    assert worker.told == {1: 4, 2: 1}

    worker.do(reads(3, task=2))
    worker.do(Tick())
    assert worker.told == {1: 2, 2: 2}


@given(st.integers(1, 16), st.integers(1, 20), st.sets(st.integers(1, 20)))
def test_jobs_at_work_have_all_slots_between_them_and_as_equal_parts_as_can_be(slots, jobs, ended):
    worker = Worker(slots)
    worker.assign(*(whole(job, job) for job in range(1, jobs + 1)))
    for run in ended & set(range(1, jobs + 1)):
        worker.do(RunEnded(run, 0))
    worker.do(Tick())

    at_work = [one for one in worker.core.attempts.values() if one.delivery.total is None]
    parts = [attempt.share.slots for attempt in at_work]
    assert [worker.told.get(attempt.run, 1) for attempt in at_work] == parts
    assert not parts or sum(parts) == max(slots, len(parts))
    assert not parts or max(parts) - min(parts) <= 1


def test_a_runner_that_takes_over_is_told():
    worker = Worker(4)
    worker.assign(whole(1, 1))

    worker.do(RunnerLost(1, "killed"))

    assert worker.told == {1: 4, 2: 4}

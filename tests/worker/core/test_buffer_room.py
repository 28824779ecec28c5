"""What all jobs of a worker may have made that nobody has acked: less for each of many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import Assignment, TaskAssignment
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Codec, DatasetId, IterationId, TaskId, WorkerId
from penstock_worker.core.buffer_room import LEAST
from penstock_worker.core.events import SendToRunner, StartRunner
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import SetRoom

MB = 1 << 20


def task(number, job=None):
    """Return a task that is alone of its *job* here, by default one of its own."""
    whose = IterationId(number if job is None else job)
    return TaskAssignment(TaskId(number), 0, 1, whose, DatasetId("d"), 0, Codec.NONE)


class Worker:
    """A worker's core, and how many bytes the runner of each task may fill."""

    def __init__(self, room=64 * MB, total=256 * MB, slots=1):
        self.core = WorkerCore(WorkerId("host:1"), 7, None, room, slots=slots, total=total)
        self.revision = self.said = 0
        self.room = {}

    def assign(self, *tasks):
        self.revision += 1
        for effect in self.core.handle(Assignment(self.revision, 7, tasks, {}, 1.0), 0.0):
            match effect:
                case StartRunner():
                    self.room[effect.run] = effect.room
                case SendToRunner(SetRoom(run, nbytes)):
                    self.room[run] = nbytes
                    self.said += 1
        return [self.room[attempt.run] for attempt in self.core.attempts.values()]


def test_a_few_jobs_have_what_each_may_have():
    assert Worker().assign(*map(task, range(1, 5))) == [64 * MB] * 4


def test_many_jobs_divide_what_there_is_for_all_and_get_it_back():
    worker = Worker()

    assert worker.assign(*map(task, range(1, 6))) == [32 * MB] * 5
    assert worker.assign(*map(task, range(1, 17))) == [16 * MB] * 16
    assert worker.assign(*map(task, range(1, 3))) == [64 * MB] * 2
    assert [attempt.room for attempt in worker.core.attempts.values()] == [64 * MB] * 2


def test_each_has_a_little_however_many_there_are():
    assert Worker().assign(*map(task, range(1, 201))) == [LEAST] * 200


def test_a_job_that_may_have_less_has_that():
    assert Worker(room=MB).assign(*map(task, range(1, 201))) == [MB] * 200


def test_tasks_that_fill_slots_have_their_part_of_what_their_job_may_have():
    tasks = [replace(task(number, job=1), logs=(SplitLog(),)) for number in range(1, 5)]

    assert Worker(slots=4).assign(*tasks) == [16 * MB] * 4


@pytest.mark.parametrize("jobs", [100, 1000])
def test_runners_are_seldom_told_of_it_while_jobs_come_one_by_one(jobs):
    worker = Worker(total=64 * jobs * MB)
    for count in range(1, 2 * jobs + 1, jobs // 10):
        worker.assign(*map(task, range(1, count + 1)))

    assert worker.said <= 2 * jobs


@given(st.lists(st.integers(1, 100), min_size=1, max_size=4), st.integers(1, 30))
def test_together_they_have_what_there_is_for_all_or_the_least(counts, total):
    worker = Worker(total=total * 64 * MB)
    for count in counts:
        rooms = worker.assign(*map(task, range(1, count + 1)))

        assert sum(rooms) <= max(total * 64 * MB, count * LEAST)
        assert len(set(rooms)) == 1

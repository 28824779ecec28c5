"""What all jobs of a worker may have made that nobody has acked: less for each of many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import Assignment, ReaderStatus, TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Codec, DatasetId, IterationId, ReaderId, TaskId, WorkerId
from penstock_worker.core.events import (
    SendFrame,
    SendToRunner,
    StartRunner,
    StreamAcked,
    StreamId,
    StreamOpened,
    StreamWritable,
)
from penstock_worker.core.shares import LEAST
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import ArenaFull, FrameReady, SetRoom

MB = 1 << 20
READER = ReaderId(1)


def task(number, job=None):
    """Return a task that is alone of its *job* here, by default one of its own."""
    whose = IterationId(number if job is None else job)
    return TaskAssignment(TaskId(number), 0, 1, whose, DatasetId("d"), 0, Codec.NONE)


class Worker:
    """A worker's core, and how many bytes the runner of each task may fill."""

    def __init__(self, room=64 * MB, total=256 * MB, slots=1):
        self.core = WorkerCore(WorkerId("host:1"), 7, None, room, slots=slots, total=total)
        self.revision = self.said = 0
        self.room, self.made, self.opened = {}, {}, {}

    def assign(self, *tasks):
        self.revision += 1
        readers = {READER: ReaderStatus.LIVE}
        self._handle(Assignment(self.revision, 7, tasks, readers, 1.0))
        return [self.room[attempt.run] for attempt in self.core.attempts.values()]

    def make(self, task, frames):
        """Make so many frames of a megabyte."""
        run, made = self.core.attempts[task].run, self.made.get(task, 0)
        for first in range(made, made + frames):
            self._handle(FrameReady(run, first, 1, first * MB, MB, b"", Codec.NONE, MB))
        self.made[task] = made + frames

    def wait_for_room(self, task):
        """Have the runner wait for room, however few bytes its frames have."""
        self._handle(ArenaFull(self.core.attempts[task].run))

    def fill(self, task):
        """Make all that there is room for; return how many bytes are kept."""
        attempt = self.core.attempts[task]
        self.make(task, (self.room[attempt.run] - attempt.delivery.nbytes) // MB)
        return attempt.delivery.nbytes

    def read(self, task):
        """Have a reader take all that there is."""
        stream = self.opened.get(task)
        if stream is None:
            stream = self.opened[task] = StreamId(len(self.opened) + 1)
            nothing = (AckedSet(0, NO_RANGES), NO_RANGES)
            self._handle(StreamOpened(stream, Subscribe(READER, task, 1, 1, *nothing, 1 << 40)))
        while self._handle(StreamWritable(stream)):
            pass
        self._handle(StreamAcked(stream, Ack(RangeSet(((0, self.made[task]),)), 0)))

    def read_on(self, task):
        """Have a reader empty again and again what is filled; return the last room."""
        for _ in range(8):
            self.fill(task)
            self.read(task)
        return self.room[self.core.attempts[task].run]

    def _handle(self, event):
        """Return how many frames were sent."""
        sent = 0
        for effect in self.core.handle(event, 0.0):
            match effect:
                case StartRunner():
                    self.room[effect.run] = effect.room
                case SendToRunner(SetRoom(run, nbytes)):
                    self.room[run] = nbytes
                    self.said += 1
                case SendFrame():
                    sent += 1
        return sent


def test_where_there_is_plenty_each_has_what_it_may_have():
    assert Worker(total=2048 * MB).assign(*map(task, range(1, 5))) == [64 * MB] * 4


def test_a_room_that_readers_empty_grows_to_its_part_of_what_there_is_for_all():
    worker = Worker()

    assert worker.assign(*map(task, range(1, 5))) == [8 * MB] * 4
    assert worker.read_on(1) == 64 * MB
    rooms = worker.assign(*map(task, range(1, 17)))
    assert rooms == [16 * MB] + [8 * MB] * 3 + [4 * MB] * 12
    assert worker.read_on(2) == 16 * MB
    assert worker.assign(*map(task, range(1, 3))) == [64 * MB, 32 * MB]
    assert worker.read_on(2) == 64 * MB


def test_a_room_that_is_full_or_never_was_stays_as_it_is():
    worker = Worker()
    worker.assign(task(1), task(2), task(3), task(4))

    worker.fill(1)
    for _ in range(8):
        worker.make(2, 3)
        worker.read(2)

    assert [worker.room[attempt.run] for attempt in worker.core.attempts.values()] == [8 * MB] * 4


def test_a_room_that_small_frames_fill_grows_too():
    worker = Worker()
    worker.assign(*map(task, range(1, 5)))

    for _ in range(8):
        worker.make(1, 2)
        worker.wait_for_room(1)
        before = worker.room[worker.core.attempts[1].run]
        worker.wait_for_room(1)
        assert worker.room[worker.core.attempts[1].run] == before
        worker.read(1)

    assert worker.room[worker.core.attempts[1].run] == 64 * MB


@pytest.mark.quick(2)
@pytest.mark.parametrize("count", [10, 50, 300])
def test_jobs_that_come_one_by_one_and_are_not_read_keep_what_there_is_for_all(count):
    worker = Worker(total=count * 8 * MB)
    kept = 0
    for number in range(1, count + 1):
        worker.assign(*map(task, range(1, number + 1)))
        kept += worker.fill(TaskId(number))

    assert kept <= count * 8 * MB


def test_each_has_a_little_however_many_there_are():
    assert Worker().assign(*map(task, range(1, 201))) == [LEAST] * 200


def test_a_job_that_may_have_less_has_that():
    assert Worker(room=MB).assign(*map(task, range(1, 201))) == [MB] * 200


def test_tasks_that_fill_slots_have_their_part_of_what_their_job_may_have():
    tasks = [replace(task(number, job=1), logs=(SplitLog(),)) for number in range(1, 5)]

    assert Worker(slots=4, total=2048 * MB).assign(*tasks) == [16 * MB] * 4


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
        assert max(rooms) <= max(total * 64 * MB // count, LEAST)

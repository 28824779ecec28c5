"""In which order a reader hands out what comes of an ordered job's tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TransformError
from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import AllSent, FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus, TaskId
from penstock.reader.core.limits import ByteLimit, TaskFrameLimit
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore

WAIT, END = NoElement.WAIT, NoElement.END


class Reading:
    """A reader of an ordered job, whose loop has no operators behind it."""

    def __init__(self, limit=None):
        self.core = ReaderCore(
            IterationId(1), "r", 30.0, limit or ByteLimit(64 << 20), ordered=True
        )
        self.now, self.revision = 0.0, 0

    def view(self, *tasks, finished=False):
        """Let the dispatcher say which tasks there are: (task, attempt, worker, failure)."""
        self.revision += 1
        seq = self.core.heartbeat(self.now).seq
        seen = {TaskId(task): TaskView(*rest) for task, *rest in tasks}
        live = ReaderStatus.LIVE
        view = ReaderView(self.revision, "r", ReaderId(7), live, seq, seen, finished)
        self.core.on_view(view, self.now)

    def frame(self, task, first, stop):
        stream = self.core.tasks[task]
        part = RangeSet.of((first, stop))
        which = (task, stream.attempt, stream.subscription, first, stop - first, 0, part)
        self.core.on_frame(FrameHeader(*which, b"layout"), "load", 100, self.now)

    def all_sent(self, task, subscription=None):
        stream = self.core.tasks[task]
        told = AllSent(task, stream.attempt, subscription or stream.subscription)
        self.core.on_all_sent(told, self.now)

    def next(self):
        """Return what the loop gets: (task, first, stop), or why it gets nothing."""
        piece = self.core.next_slice(self.now)
        if isinstance(piece, NoElement):
            return piece
        assert self.core.deliver(piece, self.now)
        return piece.frame.task, piece.start, piece.stop


@pytest.fixture
def two():
    reading = Reading()
    reading.view((1, 1, "w"), (2, 1, "v"))
    return reading


def test_a_later_task_waits_for_all_of_an_earlier_one(two):
    two.frame(2, 0, 5)
    assert two.next() is WAIT

    two.frame(1, 0, 3)
    assert two.next() == (1, 0, 3)
    assert two.next() is WAIT  # more of it may come

    two.all_sent(1)
    assert two.next() == (2, 0, 5)


def test_what_waits_for_its_turn_is_not_ready(two):
    two.frame(2, 0, 5)
    assert not two.core.ready

    two.all_sent(1)
    assert two.core.ready


def test_a_task_that_is_over_is_waited_for_no_more(two):
    two.frame(2, 0, 5)
    two.view((2, 1, "v"))

    assert two.next() == (2, 0, 5)


def test_a_task_between_two_attempts_is_waited_for(two):
    two.all_sent(1)
    two.view((1, 1, None), (2, 1, "v"))
    two.view((1, 2, "v"), (2, 1, "v"))
    two.core.on_tick(two.now)
    two.frame(2, 0, 5)

    assert two.next() is WAIT
    two.frame(1, 0, 1)
    assert two.next() == (1, 0, 1)


def test_a_task_without_a_worker_yet_is_waited_for():
    reading = Reading()
    reading.view((1, 0, None), (2, 1, "v"))
    reading.frame(2, 0, 5)

    assert reading.next() is WAIT
    reading.view((1, 1, "w"), (2, 1, "v"))
    reading.frame(1, 0, 2)
    assert reading.next() == (1, 0, 2)


def test_what_another_reader_requeued_comes_late_and_at_once(two):
    two.all_sent(1)
    two.frame(2, 0, 5)
    two.frame(1, 0, 1)

    assert two.next() == (1, 0, 1)
    assert two.next() == (2, 0, 5)


def test_news_of_an_older_stream_does_not_count(two):
    stream = two.core.tasks[1]
    two.core.on_stream_broken(1, stream.subscription, "cut", two.now)
    two.now += 2.0
    two.core.on_tick(two.now)
    assert stream.subscription == 2
    two.all_sent(1, subscription=1)
    two.frame(2, 0, 5)

    assert two.next() is WAIT
    two.all_sent(1)
    assert two.next() == (2, 0, 5)


def test_an_error_comes_in_its_place(two):
    failure = Failure.of(TransformError("map", 3, "no"))
    two.view((1, 1, "w"), (2, 1, None, failure))
    two.now += 5.0
    two.frame(1, 0, 3)
    assert two.next() == (1, 0, 3)
    assert two.next() is WAIT  # not the error of a later task

    two.all_sent(1)
    with pytest.raises(TransformError):
        two.next()


def test_behind_an_error_the_next_task_goes_on(two):
    failure = Failure.of(TransformError("map", 3, "no"))
    two.frame(2, 0, 5)
    two.view((1, 1, None, failure), (2, 1, "v"))
    two.now += 5.0
    two.core.on_tick(two.now)
    with pytest.raises(TransformError):
        two.next()

    assert two.next() == (2, 0, 5)


def test_tasks_that_are_over_are_forgotten():
    reading = Reading()
    for task in range(1, 500):
        reading.view((task, 1, "w"), (task + 1, 1, "v"))
        reading.frame(task, 0, 1)
        assert reading.next() == (task, 0, 1)

    assert len(reading.core.tasks) <= 3


def test_frames_of_later_tasks_leave_room_for_the_first_one():
    reading = Reading(TaskFrameLimit(1))
    reading.view((1, 1, "w"), (2, 1, "v"), (3, 1, "v"))
    for task in (2, 3):
        reading.frame(task, 0, 1)
    stream = reading.core.tasks[1]

    assert stream.balance > 0
    reading.frame(1, 0, 1)
    assert reading.next() == (1, 0, 1)


def test_the_end_comes_when_all_is_over(two):
    two.frame(1, 0, 3)
    two.all_sent(1)
    assert two.next() == (1, 0, 3)
    two.all_sent(2)
    assert two.next() is WAIT

    two.view(finished=True)
    assert two.next() is END


STEPS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["frame", "all_sent", "take"])), max_size=80
)


@given(STEPS, st.lists(st.integers(0, 4), min_size=6, max_size=6))
def test_whatever_comes_first_one_reader_gets_all_in_order(steps, sizes):
    reading = Reading()
    reading.view(*((task, 1, "w") for task in range(1, 7)))
    sent, told, got = dict.fromkeys(range(1, 7), 0), set(), []

    def send(task):
        if sent[task] < sizes[task - 1]:
            reading.frame(task, sent[task], sent[task] + 1)
            sent[task] += 1
        elif task not in told:
            told.add(task)
            reading.all_sent(task)

    def take():
        while not isinstance(found := reading.next(), NoElement):
            task, first, stop = found
            got.extend((task, number) for number in range(first, stop))

    for task, what in steps:
        if what == "take":
            take()
        else:
            send(task)
    for task in range(1, 7):
        while task not in told:
            send(task)
    take()

    assert got == [(task, n) for task, size in enumerate(sizes, 1) for n in range(size)]

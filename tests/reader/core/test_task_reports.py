"""Which tasks a heartbeat reports on: nothing that matters goes missing, whatever is lost."""

import random
from dataclasses import replace

import pytest

from penstock.protocol.control import ReaderView
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import ReaderStatus
from penstock.reader.core.task_reports import IN_TURN, TaskReports
from penstock.reader.core.task_stream import TaskStream
from tests.reader.core.driven_core import DrivenCore

MANY = 3 * IN_TURN


class Reporting:
    """A reader of so many tasks, all of which flow, and a dispatcher that answers."""

    def __init__(self, tasks=1, life=1):
        self.streams = {task: TaskStream(task) for task in range(1, tasks + 1)}
        for stream in self.streams.values():
            stream.on_assigned(1, f"w:{stream.task}")
            stream.streaming = stream.answered = True
        self.reports = TaskReports(self.streams)
        self.missed = set()
        self.seq = 0
        self.answer(None, life)

    def ack(self, *tasks, upto=10):
        for task in tasks or self.streams:
            self.streams[task].acked = AckedSet(upto)

    def beat(self, *, everything=False):
        self.seq += 1
        missed = lambda stream: stream.task in self.missed  # noqa: E731
        return self.reports.take(self.seq, missed, everything=everything)

    def answer(self, seq, life=1, **fields):
        view = ReaderView(1, "r", 1, ReaderStatus.LIVE, seq, {}, life=life, **fields)
        self.reports.on_view(view)


def test_what_was_answered_is_not_told_again():
    reporting = Reporting()
    reporting.ack()
    told = reporting.beat()
    assert told[1].acked == AckedSet(10)

    reporting.answer(1)
    assert not reporting.beat()

    reporting.ack(upto=11)
    assert reporting.beat()[1].acked == AckedSet(11)


def test_acks_that_neither_a_worker_nor_the_dispatcher_heard_are_owed():
    reporting = Reporting(tasks=2)
    reporting.ack(upto=10)
    assert reporting.reports.owed == 0  # the workers hear them

    for stream in reporting.streams.values():
        stream.streaming = False
    assert reporting.reports.owed == 20

    reporting.beat(everything=True)
    reporting.answer(1)
    assert reporting.reports.owed == 0

    reporting.ack(1, upto=13)
    assert reporting.reports.owed == 3


def test_what_was_not_answered_is_told_again():
    reporting = Reporting()
    reporting.ack()

    assert list(reporting.beat()) == list(reporting.beat()) == [1]


def test_an_answer_to_another_heartbeat_says_nothing_of_what_that_one_did_not_have():
    reporting = Reporting()
    reporting.beat()
    reporting.ack()
    reporting.beat()

    reporting.answer(1)
    assert list(reporting.beat()) == [1]


def test_of_many_tasks_that_flow_each_is_told_in_turn():
    reporting = Reporting(MANY)
    reporting.ack()

    told = [list(reporting.beat()) for _ in range(3)]
    assert [len(one) for one in told] == [IN_TURN] * 3
    assert sorted(sum(told, [])) == list(range(1, MANY + 1))


def test_a_task_that_no_worker_runs_is_in_each_heartbeat_beside_those_in_turn():
    reporting = Reporting(MANY)
    reporting.ack()
    reporting.streams[MANY].worker = None
    reporting.streams[MANY].fence = 2

    for others in (IN_TURN, IN_TURN, IN_TURN - 1, 0):
        told = reporting.beat()
        assert told[MANY].fence == 2
        assert len(told) == others + 1
        reporting.answer(reporting.seq)


def test_a_task_whose_worker_is_not_reached_is_in_each_heartbeat():
    reporting = Reporting(MANY)
    reporting.missed = {MANY}

    for _ in range(3):
        assert list(reporting.beat()) == [MANY]
        reporting.answer(reporting.seq)


def test_acks_that_the_worker_does_not_hear_now_do_not_wait_for_their_turn():
    reporting = Reporting(MANY)
    reporting.ack()
    for task in range(1, MANY + 1):
        reporting.streams[task].streaming = False

    assert len(reporting.beat()) == MANY
    reporting.answer(reporting.seq)
    assert not reporting.beat()


def test_tasks_of_workers_that_this_reader_may_not_read_are_told_once():
    reporting = Reporting(MANY)
    for stream in reporting.streams.values():
        stream.worker, stream.streaming, stream.barred = None, False, True
    assert not reporting.beat()

    reporting.ack(5)
    assert list(reporting.beat()) == [5]
    reporting.answer(reporting.seq)
    assert not reporting.beat()


def test_at_a_barrier_and_at_the_end_all_tasks_are_told():
    reporting = Reporting(MANY)

    assert len(reporting.beat(everything=True)) == MANY


def test_a_dispatcher_of_before_whose_lives_are_not_told_apart_is_told_all_each_time():
    reporting = Reporting(MANY, life=0)
    reporting.answer(reporting.seq, life=0)

    assert len(reporting.beat()) == len(reporting.beat()) == MANY


def test_a_dispatcher_that_was_restarted_is_told_what_the_one_before_it_knew():
    reporting = Reporting(2)
    reporting.ack()
    reporting.beat()
    reporting.answer(1)
    assert not reporting.beat()

    reporting.answer(2, life=2)
    assert list(reporting.beat()) == [1, 2]


def test_an_answer_that_says_that_nothing_was_heard_confirms_nothing():
    reporting = Reporting()
    reporting.ack()
    reporting.beat()
    reporting.answer(1, life=1, deferred=True)  # its disk is full: it decided nothing
    reporting.answer(None)

    assert list(reporting.beat()) == [1]


def test_a_task_that_is_over_leaves_nothing_behind():
    reporting = Reporting()
    reporting.ack()
    reporting.beat()
    del reporting.streams[1]
    reporting.reports.drop(1)
    reporting.answer(1)

    assert not reporting.reports._answered
    assert not reporting.reports._told_in


class Dispatcher:
    """What a life of a dispatcher knows: the join of what it heard."""

    def __init__(self, life=1):
        self.acked, self.life = {}, life

    def hear(self, seq, reports):
        for task, report in reports.items():
            self.acked[task] = self.acked.get(task, AckedSet()) | report.acked
        return seq, self.life


@pytest.mark.quick(50)
@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_lost_doubled_or_late_a_dispatcher_comes_to_know_all(seed):
    chance = random.Random(seed)
    reporting, dispatcher = Reporting(IN_TURN + chance.randint(-10, 20)), Dispatcher()
    beats, answers = [], []

    def some(waiting):
        """Take some of what is on its way, in any order; lose some of it, and double some."""
        chance.shuffle(waiting)
        taken = [waiting.pop() for _ in range(chance.randint(0, len(waiting)))]
        return [one for one in taken for _ in range(chance.choice([0, 1, 1, 1, 2]))]

    for _ in range(60):
        stream = reporting.streams[chance.randint(1, len(reporting.streams))]
        match chance.randrange(8):
            case 0:
                stream.worker, stream.fence = None, 2
            case 1:
                stream.on_assigned(2, "w:9")
            case 2:
                stream.streaming = not stream.streaming
            case 3:
                dispatcher = Dispatcher(dispatcher.life + 1)
            case _:
                stream.acked |= AckedSet(stream.acked.floor + 1)
                stream.buffered = RangeSet.of((50, 50 + chance.randint(0, 3)))
        told = reporting.beat()
        for task, stream in reporting.streams.items():
            if stream.worker is None:
                assert told[task] == stream.report(), "what a next attempt waits for is in each"
        beats.append((reporting.seq, told))
        answers += [dispatcher.hear(*beat) for beat in some(beats)]
        for answer in some(answers):
            reporting.answer(*answer)

    for _ in range(8):  # undisturbed
        reporting.answer(*dispatcher.hear(reporting.seq + 1, reporting.beat()))
    for task, stream in reporting.streams.items():
        assert dispatcher.acked.get(task, AckedSet()).ranges == stream.acked.ranges


def test_a_report_is_what_the_reader_has_when_the_heartbeat_is_made():
    reporting = Reporting()
    reporting.ack()
    stream = reporting.streams[1]
    told = reporting.beat()
    stream.buffered = RangeSet.of((20, 30))
    reporting.answer(1)

    assert told == {1: replace(stream.report(), buffered=RangeSet())}
    assert reporting.beat() == {1: stream.report()}
    assert reporting.reports.unacked == 10


def test_a_reader_at_a_barrier_and_one_that_leaves_report_on_all_tasks():
    reading = DrivenCore()
    tasks = [(task, 1, f"w:{task}") for task in (1, 2, 3)]
    reading.view(*tasks, life=1)
    assert not reading.core.heartbeat(0.0).reports

    reading.core.save("x", 9.0, 0.0)
    assert len(reading.core.heartbeat(0.0).reports) == 3
    reading.view(*tasks, life=1)
    assert len(reading.core.heartbeat(0.0).reports) == 3

    leaving = DrivenCore()
    leaving.view(*tasks, life=1)
    leaving.core.leave(0.0)
    assert len(leaving.core.heartbeat(0.0).reports) == 3

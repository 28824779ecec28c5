"""What an attempt does for a job that is read in order: it makes room for the next one."""

from dataclasses import replace

import pytest

from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, AllSent
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Codec, DatasetId, IterationId, TaskId
from penstock_worker.core.attempt import COPIED
from penstock_worker.core.events import (
    HeartbeatDue,
    RetainFrames,
    SendAllSent,
    SendToRunner,
    StopRunner,
    StreamAcked,
    StreamWritable,
)
from penstock_worker.runner.messages import FreeFrames, RunEnded
from tests.worker.core.driven_task import core_with, made, of, opens

RUN = TaskAssignment(TaskId(1), 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE, ordered=True)


def told(effects):
    return [(effect.stream, effect.all_sent) for effect in of(SendAllSent, effects)]


def test_a_reader_is_told_once_when_it_has_all_there_is():
    core = core_with(RUN)
    core.handle(opens(1), 0.0)
    assert told(core.handle(made(0, 3), 0.0)) == []  # more may come

    assert told(core.handle(RunEnded(1, 3), 0.0)) == [(1, AllSent(1, 1, 1))]
    assert told(core.handle(StreamWritable(1), 0.0)) == []


def test_it_is_not_told_while_something_waits_for_its_credit():
    core = core_with(RUN)
    core.handle(opens(1, credit=50), 0.0)
    core.handle(made(0, 3), 0.0)
    core.handle(made(3, 5, offset=128), 0.0)
    core.handle(StreamWritable(1), 0.0)

    assert told(core.handle(RunEnded(1, 5), 0.0)) == []
    core.handle(StreamAcked(1, Ack(RangeSet.of((0, 3)), 10**6)), 0.0)
    assert told(core.handle(StreamWritable(1), 0.0)) == []  # only told before
    assert core.attempts[TaskId(1)].delivery.all_sent


def test_each_reader_and_each_new_stream_is_told():
    core = core_with(RUN)
    core.handle(opens(1), 0.0)
    core.handle(made(0, 3), 0.0)
    core.handle(RunEnded(1, 3), 0.0)

    assert told(core.handle(opens(2, reader=2), 0.0)) == [(2, AllSent(1, 1, 2))]
    again = core.handle(opens(3, buffered=RangeSet.of((0, 3))), 0.0)
    assert told(again) == [(3, AllSent(1, 1, 3))]


def test_readers_of_a_job_without_order_are_told_too_so_that_their_last_acks_do_not_wait():
    core = core_with(replace(RUN, ordered=False))
    core.handle(opens(1), 0.0)
    core.handle(made(0, 3), 0.0)

    assert told(core.handle(RunEnded(1, 3), 0.0)) == [(1, AllSent(1, 1, 1))]


def test_the_dispatcher_is_told_at_once_that_it_has_ended_and_when_readers_have_it_all():
    core = core_with(RUN)
    core.handle(made(0, 3), 0.0)
    ended = core.handle(RunEnded(1, 3), 0.0)
    progress = core.heartbeat().progress[TaskId(1)]
    assert of(HeartbeatDue, ended)
    assert (progress.ended, progress.all_sent, progress.done) == (True, False, False)

    sent = core.handle(opens(1), 0.0)
    progress = core.heartbeat().progress[TaskId(1)]
    assert of(HeartbeatDue, sent)
    assert (progress.all_sent, progress.done) == (True, False)

    done = core.handle(StreamAcked(1, Ack(RangeSet.of((0, 3)), 0)), 0.0)
    assert of(HeartbeatDue, done)
    assert core.heartbeat().progress[TaskId(1)].done


def test_its_runner_is_free_for_the_next_task_as_soon_as_it_has_ended():
    core = core_with(RUN)
    frame = made(0, 3, offset=64)
    core.handle(frame, 0.0)

    effects = core.handle(RunEnded(1, 3), 0.0)

    assert of(RetainFrames, effects) == [RetainFrames(1, (frame,))]
    assert of(StopRunner, effects) == [StopRunner(1)]
    core.handle(opens(1), 0.0)
    freed = core.handle(StreamAcked(1, Ack(RangeSet.of((0, 3)), 0)), 0.0)
    assert of(SendToRunner, freed) == [SendToRunner(FreeFrames(1, (64,)))]
    assert of(StopRunner, freed) == []


@pytest.mark.parametrize("nbytes", [COPIED // 2, COPIED])
def test_but_what_is_much_to_copy_stays_where_it_is_until_less_is_left(nbytes):
    core = core_with(RUN)
    for at in range(3):
        core.handle(made(at, at + 1, offset=at * nbytes, nbytes=nbytes), 0.0)
    core.handle(opens(1), 0.0)
    for _ in range(3):
        core.handle(StreamWritable(1), 0.0)

    assert of(StopRunner, core.handle(RunEnded(1, 3), 0.0)) == []
    acked = [core.handle(StreamAcked(1, Ack(RangeSet.of((at, at + 1)), 0)), 0.0) for at in (0, 1)]
    stopped = [bool(of(StopRunner, effects)) for effects in acked]
    assert stopped == [nbytes * 2 <= COPIED, nbytes * 2 > COPIED]


def test_what_was_acked_before_needs_no_frames():
    core = core_with(replace(RUN, acked=AckedSet(3)))

    effects = core.handle(RunEnded(1, 3), 0.0)

    assert of(RetainFrames, effects) == []
    assert of(StopRunner, effects) == [StopRunner(1)]
    assert core.heartbeat().progress[TaskId(1)].done

"""What the worker's mind does where a scenario would not read well."""

from dataclasses import replace

import pytest

from penstock.errors import DefinitionError, TransformError
from penstock.protocol.control import Assignment, SplitGrant, TaskAssignment
from penstock.protocol.data import Ack, StreamEnd, Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import (
    HeartbeatDue,
    RequestSplits,
    RunnerLost,
    SendEnd,
    SendFrame,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamAcked,
    StreamClosed,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.state_machine import PAST, WorkerCore
from penstock_worker.core.streams import CHEAP, EAGER
from penstock_worker.runner.messages import (
    CheckpointTaken,
    Flush,
    FrameReady,
    FreeFrames,
    RunEnded,
    RunFailed,
    SplitsNeeded,
)

ROOM = 10**9

RUN = TaskAssignment(TaskId(1), 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE)


def core_with(run=RUN, readers=()):
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    core.apply(order(1, run, readers), 0.0)
    return core


def order(as_of, *runs, readers=()):
    runs = tuple(run for run in runs if isinstance(run, TaskAssignment))
    return Assignment(as_of, 7, runs, dict(readers), 1.0)


def made(first, stop, offset=0, nbytes=100, run=1):
    return FrameReady(run, first, stop - first, offset, nbytes, b"", Codec.NONE, nbytes)


def opens(stream, reader=1, opening=None, taken=NOTHING_ACKED, buffered=NO_RANGES, credit=10**9):
    number = stream if opening is None else opening
    return StreamOpened(
        stream, Subscribe(ReaderId(reader), TaskId(1), 1, number, taken, buffered, credit)
    )


def runs(*spans):
    return RangeSet.of(*spans)


def frames(effects):
    return [(e.stream, e.header.part.spans) for e in effects if isinstance(e, SendFrame)]


def of(kind, effects):
    return [effect for effect in effects if isinstance(effect, kind)]


def test_a_later_attempt_drops_what_is_taken_and_keeps_what_is_held_for_its_holder():
    run = replace(RUN, taken=AckedSet(3), held={ReaderId(1): runs((5, 10))})
    core = core_with(run)
    core.apply(opens(1, reader=2), 0.0)

    dropped = core.apply(made(0, 2, offset=64), 0.0)
    sent = core.apply(made(2, 12, offset=128), 0.0)

    assert of(SendToRunner, dropped)[0].order == FreeFrames(1, (64,))
    assert frames(sent) == [(1, ((3, 5), (10, 12)))]
    attempt = core.attempts[TaskId(1)]
    assert attempt.places.held[ReaderId(1)] == runs((5, 10))
    # Of what was reserved for it, reader 1 has lost 7 on the way: anybody may have it.
    core.apply(StreamWritable(1), 0.0)
    sent = core.apply(opens(2, reader=1, buffered=runs((5, 7), (8, 10))), 0.0)
    assert frames(sent) == [(1, ((7, 8),))]


def test_what_is_held_and_not_made_yet_is_nobodys_until_it_is_made():
    core = core_with(replace(RUN, held={ReaderId(1): runs((2, 4))}))

    core.apply(opens(1), 0.0)
    sent = core.apply(made(0, 4), 0.0)

    assert frames(sent) == [(1, ((0, 4),))]


def test_a_frame_that_another_runner_made_before_is_kept_for_the_rest_only():
    core = core_with()
    core.apply(made(0, 6, offset=0), 0.0)
    core.apply(made(4, 8, offset=64), 0.0)
    core.apply(made(4, 8, offset=128), 0.0)

    stock = core.attempts[TaskId(1)].stock
    assert len(stock) == 2
    assert (stock.at(5).made.offset, stock.at(6).made.offset) == (0, 64)
    taken = core.apply(opens(1, taken=AckedSet(6)), 0.0)
    assert of(SendToRunner, taken)[0].order == FreeFrames(1, (0,))


def test_a_runner_that_skips_elements_fails_the_task_by_name():
    core = core_with()
    core.apply(made(0, 4), 0.0)

    effects = core.apply(made(5, 9), 0.0)

    assert of(HeartbeatDue, effects)
    failure = core.beat().progress[TaskId(1)].failure
    assert "skipped from element 4 to 5" in str(failure.error())


@pytest.mark.parametrize(("held", "wants"), [(EAGER - 1, 1), (EAGER, 0)])
def test_a_reader_with_few_frames_shall_not_wait_for_a_full_one(held, wants):
    core = core_with()
    core.apply(opens(1), 0.0)
    for n in range(held):
        core.apply(made(n, n + 1, offset=n), 0.0)
        core.apply(StreamWritable(1), 0.0)
    effects = core.apply(made(held, held + 1, offset=held), 0.0)
    core.apply(StreamAcked(1, Ack(runs((0, 1)), 0)), 0.0)

    effects = core.apply(StreamWritable(1), 0.0)

    assert [tell.order for tell in of(SendToRunner, effects)] == [Flush(1)] * wants


def test_what_comes_behind_the_end_of_a_run_changes_nothing():
    core = core_with(replace(RUN, logs=(SplitLog(),)))
    core.apply(made(0, 4), 0.0)
    core.apply(RunEnded(1, 4), 0.0)
    core.apply(opens(1), 0.0)
    core.apply(StreamAcked(1, Ack(runs((0, 4)), 0)), 0.0)

    assert core.apply(StreamWritable(1), 0.0) == []
    assert core.apply(SplitGrant(TaskId(1), 1, 0, 0, (Split(0, 1),)), 0.0) == []
    assert core.apply(RunnerLost(1, "the process died"), 0.0) == []
    assert core.beat().progress[TaskId(1)].failure is None


def test_a_full_reader_makes_the_runner_flush_nothing():
    core = core_with()
    core.apply(opens(1, credit=0), 0.0)

    assert of(SendToRunner, core.apply(StreamWritable(1), 0.0)) == []
    assert [
        t.order for t in of(SendToRunner, core.apply(StreamAcked(1, Ack(NO_RANGES, 5)), 0.0))
    ] == [Flush(1)]


def test_a_large_frame_goes_to_one_reader_while_more_may_come():
    core = core_with()
    core.apply(opens(1, reader=1), 0.0)
    core.apply(opens(2, reader=2), 0.0)

    assert frames(core.apply(made(0, 10, nbytes=CHEAP + 1), 0.0)) == [(1, ((0, 10),))]
    assert frames(core.apply(made(10, 20, nbytes=CHEAP + 1, offset=64), 0.0)) == [(2, ((10, 20),))]


def test_who_holds_least_is_served_first():
    core = core_with()
    core.apply(opens(1, reader=1), 0.0)
    core.apply(made(0, 9), 0.0)
    core.apply(StreamWritable(1), 0.0)
    core.apply(opens(2, reader=2), 0.0)

    assert frames(core.apply(made(9, 12, offset=1), 0.0)) == [(2, ((9, 12),))]
    core.apply(StreamWritable(2), 0.0)
    assert frames(core.apply(made(12, 20, offset=2), 0.0)) == [(2, ((12, 20),))]
    core.apply(StreamWritable(2), 0.0)
    assert frames(core.apply(made(20, 21, offset=3), 0.0)) == [(1, ((20, 21),))]


def test_what_a_stream_says_behind_its_end_still_counts():
    core = core_with()
    core.apply(opens(1), 0.0)
    core.apply(made(0, 4), 0.0)
    core.apply(RunFailed(1, 4, Failure("PenstockError", ("no",))), 0.0)

    core.apply(StreamAcked(1, Ack(runs((0, 4)), 0)), 0.0)
    core.apply(StreamClosed(1), 0.0)

    assert core.beat().progress[TaskId(1)].taken == AckedSet(4)
    assert core.apply(StreamAcked(1, Ack(runs((4, 5)), 0)), 0.0) == []


def test_an_empty_task_is_done_at_its_end():
    core = core_with()
    core.apply(opens(1), 0.0)

    effects = core.apply(RunEnded(1, 0), 0.0)

    assert of(HeartbeatDue, effects)
    assert of(StopRunner, effects) == [StopRunner(1)]
    assert of(SendEnd, effects) == [SendEnd(1, StreamEnd(TaskId(1), 1))]
    assert core.beat().progress[TaskId(1)].done
    assert core.apply(opens(2), 0.0) == [SendEnd(2, StreamEnd(TaskId(1), 1))]


def test_reports_of_a_run_that_was_stopped_change_nothing():
    core = core_with()
    stopped = core.apply(order(2), 0.0)

    assert stopped == [StopRunner(1)]
    assert core.apply(made(0, 4), 0.0) == []
    assert core.apply(RunEnded(1, 4), 0.0) == []
    assert core.beat().progress == {}


def test_an_attempt_that_was_started_is_not_started_again():
    core = core_with()

    assert core.apply(order(2, RUN), 0.0) == []
    assert of(StartRunner, core.apply(order(3, replace(RUN, attempt=2)), 0.0)) == [
        StartRunner(2, replace(RUN, attempt=2), 0)
    ]
    assert core.beat().ended == frozenset()


def test_an_attempt_that_is_over_here_is_told_as_ended_and_not_started_again():
    core = core_with()
    del core.attempts[TaskId(1)]  # it ended before the dispatcher wanted it to

    assert core.apply(order(2, RUN), 0.0) == []
    assert core.beat().ended == frozenset({(1, 1)})
    core.apply(order(3), 0.0)
    assert core.beat().ended == frozenset()


def test_an_opening_that_was_overtaken_is_refused_even_if_the_newer_stream_is_gone():
    core = core_with()
    core.apply(opens(2, opening=2), 0.0)
    core.apply(made(0, 4), 0.0)
    core.apply(StreamClosed(2), 0.0)

    late = core.apply(opens(1, opening=1), 0.0)

    assert late == [SendEnd(1, StreamEnd(TaskId(1), 1))]
    assert core.attempts[TaskId(1)].places.held == {ReaderId(1): runs((0, 4))}


def test_orders_for_another_life_are_ignored():
    core = core_with()
    other = Assignment(9, 8, (), {}, 1.0)

    assert core.apply(other, 0.0) == []
    assert core.as_of == 1


def test_a_reader_that_parted_opens_no_stream():
    core = core_with(readers=())
    core.apply(order(2, RUN, readers={ReaderId(1): ReaderStatus.GONE}), 0.0)

    assert core.apply(opens(1), 0.0) == [SendEnd(1, StreamEnd(TaskId(1), 1))]


def test_what_was_taken_is_heard_before_who_parted():
    core = core_with()
    core.apply(opens(1), 0.0)
    core.apply(made(0, 10), 0.0)
    parted = {ReaderId(1): ReaderStatus.GONE}

    core.apply(order(2, replace(RUN, taken=AckedSet(6)), readers=parted), 0.0)

    assert core.tally.doubted == 4
    assert core.attempts[TaskId(1)].places.ready == runs((6, 10))


def test_grants_for_what_does_not_run_or_is_not_asked_are_ignored():
    core = core_with(replace(RUN, logs=(SplitLog(),)))
    split = (Split(0, 9),)

    assert core.apply(SplitGrant(TaskId(2), 1, 0, 0, split), 0.0) == []
    assert core.apply(SplitGrant(TaskId(1), 2, 0, 0, split), 0.0) == []
    assert core.apply(SplitGrant(TaskId(1), 1, 1, 0, split), 0.0) == []
    assert core.apply(SplitGrant(TaskId(1), 1, 0, 1, split), 0.0) == []
    assert core.apply(SplitGrant(TaskId(1), 1, 0, 0, ()), 0.0) == []
    assert of(RequestSplits, core.apply(SplitsNeeded(1, 3, 0), 0.0)) == []


def test_an_older_state_is_no_news():
    core = core_with(replace(RUN, state=Checkpoint(5), taken=AckedSet(5)))
    core.apply(CheckpointTaken(1, Checkpoint(5)), 0.0)

    assert core.beat().progress[TaskId(1)].state is None


def test_an_error_of_user_code_is_signed_once():
    core = core_with()
    theirs = TransformError("map(f)", 3, "no", "other:1", "trace")

    core.apply(RunFailed(1, 0, Failure.of(theirs)), 0.0)

    assert core.beat().progress[TaskId(1)].failure.error().worker == "other:1"


def test_an_error_of_the_definition_says_on_which_worker_it_was():
    core = core_with()

    core.apply(RunFailed(1, 0, Failure("DefinitionError", ("no module 'only_here'",))), 0.0)

    error = core.beat().progress[TaskId(1)].failure.error()
    assert isinstance(error, DefinitionError)
    assert str(error) == "worker host:1: no module 'only_here'"


def test_an_early_reader_that_hangs_up_is_forgotten():
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    core.apply(opens(1), 0.0)
    core.apply(StreamWritable(1), 0.0)
    core.apply(StreamClosed(1), 0.0)

    assert of(SendEnd, core.apply(Tick(), 100.0)) == []


def test_what_ran_long_ago_is_forgotten():
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    for n in range(1, PAST + 3):
        core.apply(order(n, replace(RUN, task=TaskId(n))), 0.0)

    assert len(core._past) == PAST
    assert core.apply(opens(1), 0.0) == []


def test_the_settings_of_the_worker_go_before_the_dispatchers_wish():
    core = WorkerCore(WorkerId("host:1"), 7, 5.0, ROOM)
    core.apply(order(1), 0.0)

    beats = [now for now in range(12) if of(HeartbeatDue, core.apply(Tick(), float(now)))]

    assert beats == [0, 5, 10]


def test_frames_are_counted_up_to_what_is_asked():
    stock = FrameBuffer()
    for n in range(10):
        stock.put(BufferedFrame(n * 10, n * 10 + 10, made(n * 10, n * 10 + 10)))

    assert stock.touched(NO_RANGES, 5) == 0
    assert stock.touched(runs((5, 6), (8, 12), (15, 16)), 5) == 2
    assert stock.touched(runs((0, 100)), 5) == 5
    assert stock.nbytes == 1000


def test_frames_go_when_their_last_number_is_taken_and_in_any_order():
    stock = FrameBuffer()
    for n in range(4):
        stock.put(BufferedFrame(n * 10, n * 10 + 10, made(n * 10, n * 10 + 10, offset=n)))

    assert stock.release(runs((5, 15)), AckedSet(0, runs((5, 15)))) == []
    some = stock.release(runs((15, 20), (30, 40)), AckedSet(0, runs((5, 20), (30, 40))))
    rest = stock.release(runs((0, 5), (20, 30)), AckedSet(40))

    assert [one.offset for one in some] == [1, 3]
    assert [one.offset for one in rest] == [0, 2]
    assert (len(stock), stock.nbytes) == (0, 0)

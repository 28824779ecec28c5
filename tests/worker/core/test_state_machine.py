"""What the worker's mind does where a scenario would not read well."""

from dataclasses import replace

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
from penstock_worker.core.state_machine import PAST, WorkerCore
from penstock_worker.runner.messages import (
    CheckpointTaken,
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

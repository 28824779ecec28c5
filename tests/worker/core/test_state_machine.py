"""What the worker's core does where a scenario would not read well."""

from dataclasses import replace

import pytest

from penstock.errors import DefinitionError, TransformError
from penstock.protocol.control import (
    Assignment,
    SkippedError,
    SkippedErrors,
    SplitGrant,
)
from penstock.protocol.data import Ack, StreamEnd
from penstock.protocol.ranges import AckedSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    Failure,
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
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamAcked,
    StreamClosed,
    StreamWritable,
    Tick,
)
from penstock_worker.core.state_machine import PAST, WorkerCore
from penstock_worker.runner.messages import (
    CheckpointTaken,
    CodecChosen,
    ErrorsCounted,
    FreeFrames,
    RunEnded,
    RunFailed,
    SetLink,
    SplitsNeeded,
)
from penstock_worker.task_stats import task_stats
from tests.worker.core.driven_task import ROOM, RUN, core_with, frames, made, of, opens, order, runs


def test_a_later_attempt_drops_what_is_acked_and_keeps_what_is_unacked_for_its_holder():
    run = replace(RUN, acked=AckedSet(3), unacked={ReaderId(1): runs((5, 10))})
    core = core_with(run)
    core.handle(opens(1, reader=2), 0.0)

    dropped = core.handle(made(0, 2, offset=64), 0.0)
    sent = core.handle(made(2, 12, offset=128), 0.0)

    assert of(SendToRunner, dropped)[0].command == FreeFrames(1, (64,))
    assert frames(sent) == [(1, ((3, 5), (10, 12)))]
    attempt = core.attempts[TaskId(1)]
    assert attempt.delivery.ownership.unacked[ReaderId(1)] == runs((5, 10))
    # Of what was reserved for it, reader 1 has lost 7 on the way: any reader may have it.
    core.handle(StreamWritable(1), 0.0)
    sent = core.handle(opens(2, reader=1, buffered=runs((5, 7), (8, 10))), 0.0)
    assert frames(sent) == [(1, ((7, 8),))]


def test_what_is_unacked_and_not_produced_yet_is_not_ready_until_it_is():
    core = core_with(replace(RUN, unacked={ReaderId(1): runs((2, 4))}))

    core.handle(opens(1), 0.0)
    sent = core.handle(made(0, 4), 0.0)

    assert frames(sent) == [(1, ((0, 4),))]


def test_a_frame_that_another_runner_produced_before_is_kept_for_the_rest_only():
    core = core_with()
    core.handle(made(0, 6, offset=0), 0.0)
    core.handle(made(4, 8, offset=64), 0.0)
    core.handle(made(4, 8, offset=128), 0.0)

    frames = core.attempts[TaskId(1)].delivery.frames
    assert len(frames) == 2
    assert (frames.at(5).frame.offset, frames.at(6).frame.offset) == (0, 64)
    acked = core.handle(opens(1, acked=AckedSet(6)), 0.0)
    assert of(SendToRunner, acked)[0].command == FreeFrames(1, (0,))


def test_a_runner_that_skips_elements_fails_the_task_by_name():
    core = core_with()
    core.handle(made(0, 4), 0.0)

    effects = core.handle(made(5, 9), 0.0)

    assert of(HeartbeatDue, effects)
    failure = core.heartbeat().progress[TaskId(1)].failure
    assert "skipped from element 4 to 5" in str(failure.error())


def test_what_comes_behind_the_end_of_a_run_changes_nothing():
    core = core_with(replace(RUN, logs=(SplitLog(),)))
    core.handle(made(0, 4), 0.0)
    core.handle(RunEnded(1, 4), 0.0)
    core.handle(opens(1), 0.0)
    core.handle(StreamAcked(1, Ack(runs((0, 4)), 0)), 0.0)

    assert core.handle(StreamWritable(1), 0.0) == []
    assert core.handle(SplitGrant(TaskId(1), 1, 0, 0, (Split(0, 1),)), 0.0) == []
    assert core.handle(RunnerLost(1, "the process died"), 0.0) == []
    assert core.heartbeat().progress[TaskId(1)].failure is None


def test_acks_behind_the_end_of_a_stream_still_count():
    core = core_with()
    core.handle(opens(1), 0.0)
    core.handle(made(0, 4), 0.0)
    core.handle(RunFailed(1, 4, Failure("PenstockError", ("no",))), 0.0)

    core.handle(StreamAcked(1, Ack(runs((0, 4)), 0)), 0.0)
    core.handle(StreamClosed(1), 0.0)

    assert core.heartbeat().progress[TaskId(1)].acked == AckedSet(4)
    assert core.handle(StreamAcked(1, Ack(runs((4, 5)), 0)), 0.0) == []


def test_an_empty_task_is_done_at_its_end():
    core = core_with()
    core.handle(opens(1), 0.0)

    effects = core.handle(RunEnded(1, 0), 0.0)

    assert of(HeartbeatDue, effects)
    assert of(StopRunner, effects) == [StopRunner(1)]
    assert of(SendEnd, effects) == [SendEnd(1, StreamEnd(TaskId(1), 1))]
    assert core.heartbeat().progress[TaskId(1)].done
    assert core.handle(opens(2), 0.0) == [SendEnd(2, StreamEnd(TaskId(1), 1))]


def test_reports_of_a_run_that_was_stopped_change_nothing():
    core = core_with()
    stopped = core.handle(order(2), 0.0)

    assert stopped == [StopRunner(1)]
    assert core.handle(made(0, 4), 0.0) == []
    assert core.handle(RunEnded(1, 4), 0.0) == []
    assert core.heartbeat().progress == {}


def test_an_attempt_that_was_started_is_not_started_again():
    core = core_with()

    assert core.handle(order(2, RUN), 0.0) == []
    assert of(StartRunner, core.handle(order(3, replace(RUN, attempt=2)), 0.0)) == [
        StartRunner(2, replace(RUN, attempt=2), 0, room=ROOM)
    ]
    assert core.heartbeat().ended == frozenset()


def test_an_attempt_that_is_over_here_is_reported_as_ended_and_not_started_again():
    core = core_with()
    del core.attempts[TaskId(1)]  # it ended before the dispatcher wanted it to

    assert core.handle(order(2, RUN), 0.0) == []
    assert core.heartbeat().ended == frozenset({(1, 1)})
    core.handle(order(3), 0.0)
    assert core.heartbeat().ended == frozenset()


def test_an_older_subscription_is_refused_even_if_the_newer_stream_is_gone():
    core = core_with()
    core.handle(opens(2, subscription=2), 0.0)
    core.handle(made(0, 4), 0.0)
    core.handle(StreamClosed(2), 0.0)

    late = core.handle(opens(1, subscription=1), 0.0)

    assert late == [SendEnd(1, StreamEnd(TaskId(1), 1))]
    assert core.attempts[TaskId(1)].delivery.ownership.unacked == {ReaderId(1): runs((0, 4))}


def test_assignments_for_another_incarnation_are_ignored():
    core = core_with()
    other = Assignment(9, 8, (), {}, 1.0)

    assert core.handle(other, 0.0) == []
    assert core.revision == 1


def test_a_reader_that_was_removed_opens_no_stream():
    core = core_with(readers=())
    core.handle(order(2, RUN, readers={ReaderId(1): ReaderStatus.EXPIRED}), 0.0)

    assert core.handle(opens(1), 0.0) == [SendEnd(1, StreamEnd(TaskId(1), 1))]


def test_acks_are_handled_before_removed_readers():
    core = core_with()
    core.handle(opens(1), 0.0)
    core.handle(made(0, 10), 0.0)
    parted = {ReaderId(1): ReaderStatus.EXPIRED}

    core.handle(order(2, replace(RUN, acked=AckedSet(6)), readers=parted), 0.0)

    assert core.counters.in_doubt == 4
    assert core.attempts[TaskId(1)].delivery.ownership.ready == runs((6, 10))


def test_grants_for_what_does_not_run_or_is_not_asked_are_ignored():
    core = core_with(replace(RUN, logs=(SplitLog(),)))
    split = (Split(0, 9),)

    assert core.handle(SplitGrant(TaskId(2), 1, 0, 0, split), 0.0) == []
    assert core.handle(SplitGrant(TaskId(1), 2, 0, 0, split), 0.0) == []
    assert core.handle(SplitGrant(TaskId(1), 1, 1, 0, split), 0.0) == []
    assert core.handle(SplitGrant(TaskId(1), 1, 0, 1, split), 0.0) == []
    assert core.handle(SplitGrant(TaskId(1), 1, 0, 0, ()), 0.0) == []
    assert of(RequestSplits, core.handle(SplitsNeeded(1, 3, 0), 0.0)) == []


def test_an_older_checkpoint_is_not_new():
    core = core_with(replace(RUN, checkpoint=Checkpoint(5), acked=AckedSet(5)))
    core.handle(CheckpointTaken(1, Checkpoint(5)), 0.0)

    assert core.heartbeat().progress[TaskId(1)].checkpoint is None


def test_an_error_of_user_code_is_signed_once():
    core = core_with()
    theirs = TransformError("map(f)", 3, "no", "other:1", "trace")

    core.handle(RunFailed(1, 0, Failure.of(theirs)), 0.0)

    assert core.heartbeat().progress[TaskId(1)].failure.error().worker == "other:1"


def test_an_error_of_the_definition_says_on_which_worker_it_was():
    core = core_with()

    core.handle(RunFailed(1, 0, Failure("DefinitionError", ("no module 'only_here'",))), 0.0)

    error = core.heartbeat().progress[TaskId(1)].failure.error()
    assert isinstance(error, DefinitionError)
    assert str(error) == "worker host:1: no module 'only_here'"


def test_an_early_reader_that_hangs_up_is_forgotten():
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    core.handle(opens(1), 0.0)
    core.handle(StreamWritable(1), 0.0)
    core.handle(StreamClosed(1), 0.0)

    assert of(SendEnd, core.handle(Tick(), 100.0)) == []


def test_what_ran_long_ago_is_forgotten():
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    for n in range(1, PAST + 3):
        core.handle(order(n, replace(RUN, task=TaskId(n))), 0.0)

    assert len(core._former) == PAST
    assert core.handle(opens(1), 0.0) == []


def test_the_settings_of_the_worker_go_before_the_dispatchers_wish():
    core = WorkerCore(WorkerId("host:1"), 7, 5.0, ROOM)
    core.handle(order(1), 0.0)

    beats = [now for now in range(12) if of(HeartbeatDue, core.handle(Tick(), float(now)))]

    assert beats == [0, 5, 10]


def test_what_was_left_out_is_a_level_that_a_replay_does_not_raise():
    core = core_with()
    assert core.heartbeat().progress[TaskId(1)].errors is None

    core.handle(ErrorsCounted(1, 1, "one"), 0.0)
    core.handle(ErrorsCounted(1, 5, "five"), 0.0)
    core.handle(RunnerLost(1, "died"), 0.0)
    core.handle(ErrorsCounted(2, 1, "one"), 0.0)
    core.handle(ErrorsCounted(2, 5), 0.0)
    known = core.heartbeat().progress[TaskId(1)].errors
    core.handle(ErrorsCounted(1, 99), 0.0)

    assert known == SkippedErrors(5, (SkippedError(1, "one"), SkippedError(5, "five")))
    assert core.heartbeat().progress[TaskId(1)].errors == known
    for count in range(6, 20):
        core.handle(ErrorsCounted(2, count, str(count)), 0.0)
    told = core.heartbeat().progress[TaskId(1)].errors
    assert (told.count, [one.number for one in told.first]) == (19, [1, 5, 6, 7])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_runner_that_chooses_a_codec_is_told_of_a_slow_link_and_the_next_one_too(codec):
    core = core_with(replace(RUN, codec=codec))
    core.handle(opens(1), 0.0)
    core.handle(StreamWritable(1, 10**8, 0.9), 1.0)

    told = of(SendToRunner, core.handle(Tick(), 1.0))
    again = of(SendToRunner, core.handle(Tick(), 1.25))
    core.handle(RunnerLost(1, "it died"), 1.5)
    restarted = of(SendToRunner, core.handle(Tick(), 2.0))

    if codec is not Codec.AUTO:
        assert told == again == restarted == []
        return
    assert told == [SendToRunner(SetLink(1, pytest.approx(1.11e8, rel=0.01)))]
    assert again == []
    assert restarted == [SendToRunner(SetLink(2, pytest.approx(1.11e8, rel=0.01)))]


def test_what_auto_means_is_known_for_status():
    core = core_with(replace(RUN, codec=Codec.AUTO))
    core.handle(CodecChosen(1, "none (ratio 1.0)"), 0.0)

    assert [run.compression for run in task_stats(core.attempts.values())] == [
        "AUTO: none (ratio 1.0)"
    ]


def test_tasks_that_fill_slots_have_equal_parts_of_what_a_job_may_keep():
    core = WorkerCore(WorkerId("host:1"), 7, None, 1000, slots=4)
    fills = replace(RUN, task=TaskId(2), logs=(SplitLog(),))

    started = of(StartRunner, core.handle(order(1, RUN, fills), 0.0))

    assert [(start.share, start.room) for start in started] == [(1, 1000), (4, 250)]
    assert [attempt.room for attempt in core.attempts.values()] == [1000, 250]

"""What the dispatcher's log says, and how loud."""

import pytest

from penstock.errors import DatasetError
from penstock.protocol.calls import JobParameters
from penstock.protocol.control import SaveResult
from penstock.protocol.ranges import NOTHING_ACKED
from penstock.protocol.recording import RecordingProgress, SaveStage
from penstock.protocol.types import Codec, Failure, Mode
from penstock_dispatcher import fact_log
from penstock_dispatcher.core.datasets import DatasetForgotten, IdRegistered
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    IterationDeleted,
    IterationFinished,
    IterationOpened,
    SaveCompleted,
    TaskFailed,
    WorkerLost,
)
from penstock_dispatcher.core.recordings import (
    RecordingEnded,
    RecordingPlaced,
    RecordingStarted,
)
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.fact_log import NoticeKind
from tests.dispatcher.core.mixed import Mixed


@pytest.mark.parametrize(
    ("left", "level", "said"), [(True, "INFO", "gone"), (False, "WARNING", "lost")]
)
def test_a_worker_that_left_or_ran_nothing_is_no_loss(caplog, left, level, said):
    with caplog.at_level("INFO", "penstock.dispatcher"):
        fact_log.log_fact(WorkerLost("w:1", drained=left), DispatcherState())

    (record,) = caplog.records
    assert record.levelname == level
    assert said in record.getMessage()


def test_ids_are_logged_as_they_come_and_go(caplog):
    with caplog.at_level("INFO", "penstock.dispatcher"):
        registered = IdRegistered("corpus", "f1", Codec.AUTO, b"", explicit=True)
        fact_log.log_fact(registered, DispatcherState())
        fact_log.log_fact(DatasetForgotten("f1"), DispatcherState())

    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "dataset f1 is registered as corpus",
        "dataset f1 is forgotten: nothing uses it",
    ]


def test_saves_are_logged_from_their_beginning_to_their_end(caplog):
    state = DispatcherState()
    progress = RecordingProgress(7, 1000, 3, 8000)
    facts = [
        RecordingStarted("s", "/data/saved", "d", "d", 1000),
        RecordingPlaced("s", "w:1", 1),
        RecordingEnded("s", SaveStage.COMPLETE, progress),
        RecordingStarted("s", "/data/saved", "d", "d", 1000),
        RecordingEnded("s", SaveStage.FAILED, progress, Failure.of(DatasetError("the disk"))),
    ]
    with caplog.at_level("DEBUG", "penstock.dispatcher"):
        for fact in facts:
            state.apply(fact)
            fact_log.log_fact(fact, state)

    assert [record.getMessage() for record in caplog.records] == [
        "the save to /data/saved begins",
        "worker w:1 commits the save to /data/saved: attempt 1",
        "the save to /data/saved is complete: it has 1,000 elements",
        "the save to /data/saved begins",
        "the save to /data/saved failed: the disk",
    ]


def test_a_line_says_what_it_is_about_apart_from_its_words(caplog):
    with caplog.at_level("INFO", "penstock.dispatcher"):
        fact_log.log_fact(WorkerLost("w:1"), DispatcherState())

    (record,) = caplog.records
    assert record.worker == "w:1"
    assert not hasattr(record, "task")


def test_an_attempt_that_is_not_the_first_is_told_and_the_first_is_not():
    first, second = (AttemptStarted(3, n, "w:1", NOTHING_ACKED, {}) for n in (1, 2))
    state = DispatcherState()

    assert fact_log.notice_of(first, state) is None
    told = fact_log.notice_of(second, state)
    assert told is not None
    assert told.words == "task 3 moves to worker w:1: attempt 2"
    assert (told.kind, told.task, told.attempt) == (NoticeKind.MOVED, 3, 2)


def test_a_save_that_failed_says_why():
    result = SaveResult(1, "", failure=Failure("SaveFailed", ("no room",)))

    told = fact_log.notice_of(SaveCompleted(7, result), DispatcherState())

    assert told is not None
    assert told.kind is NoticeKind.SAVE_FAILED
    assert told.words.startswith("iteration 7 is not saved: no room")


LONG, TASK = 598_294_738_511, 598_294_738_514
"""Numbers of a pass and of a task, as long as those of a real dispatcher."""


@pytest.fixture
def named():
    """A dispatcher's state with one pass of a job, which has three tasks."""
    state = DispatcherState()
    parameters = JobParameters("d", Mode.OFF, Codec.NONE)
    state.iterations[LONG] = IterationRecord("imagenet", 2, 0, parameters, [])
    for index in range(3):
        state.iterations[LONG].tasks[TASK + index] = TaskRecord(LONG, index, (), ())
        state.owners[TASK + index] = LONG
    return state


def test_sentences_name_the_job_and_the_number_of_a_task_in_it(named):
    said = [
        fact_log.notice_of(fact, named)
        for fact in (
            IterationOpened(LONG, "imagenet", 2, 0, {}),
            AttemptStarted(TASK + 2, 2, "w:1", NOTHING_ACKED, {}),
            TaskFailed(TASK + 1, Failure("PenstockError", ("no such file",))),
            SaveCompleted(LONG, SaveResult(1, "", state=b"{}")),
            IterationFinished(LONG, {}),
        )
    ]

    assert [one.words for one in said if one is not None] == [
        "job imagenet (repetition 2) begins",
        "task 2 of job imagenet (repetition 2) moves to worker w:1: attempt 2",
        "task 1 of job imagenet (repetition 2) failed: no such file",
        "job imagenet (repetition 2) is saved",
        "job imagenet (repetition 2) is finished",
    ]
    assert [one.iteration for one in said if one is not None] == [LONG] * 5


@pytest.mark.parametrize("restarted", [False, True])
def test_the_job_of_a_pass_is_named_although_its_deletion_took_it_out_of_the_state(
    caplog, named, restarted
):
    log = fact_log.FactLog(named if restarted else DispatcherState())
    if not restarted:
        log.log(IterationOpened(LONG, "imagenet", 2, 0, {}), named)
    del named.iterations[LONG]

    with caplog.at_level("INFO", "penstock.dispatcher"):
        log.log(IterationDeleted(LONG), named)

    assert caplog.records[-1].getMessage() == "job imagenet (repetition 2) is forgotten"


def test_new_weights_are_logged_with_their_turn(caplog):
    job = Mixed()
    with caplog.at_level("INFO", "penstock.dispatcher"):
        at = job.sets(web=3, code=1)
        notice = fact_log.log_fact(job.facts[-1], job.core.state)

    assert notice.kind is NoticeKind.REWEIGHED
    assert notice.words == f"job j has the weights web 0.75, code 0.25 from turn {at} on"
    assert notice.words in caplog.text

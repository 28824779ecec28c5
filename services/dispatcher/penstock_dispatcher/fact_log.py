"""Which facts are told, at which level, and in what words: to the log, and to those who look on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.protocol.control import SaveResult
from penstock.protocol.names import printable, printable_lines
from penstock.protocol.types import Failure, IterationId, ReaderStatus
from penstock.runtime import log_lines
from penstock_dispatcher.core.dataset_facts import DatasetForgotten, IdRegistered
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    Fact,
    IterationDeleted,
    IterationFinished,
    IterationOpened,
    JobFact,
    ReaderJoined,
    ReaderRemoved,
    SaveCompleted,
    TaskFailed,
    WorkerLost,
    WorkerRegistered,
)
from penstock_dispatcher.core.state import DispatcherState

log = logging.getLogger("penstock.dispatcher")


class NoticeKind(Enum):
    """What happened."""

    JOINED = "joined"
    LEFT = "left"
    DRAIN = "drain"
    LOST = "lost"
    """A worker, a reader or a runner is gone that was not to go."""
    MOVED = "moved"
    REQUEUED = "requeued"
    FAILED = "failed"
    UNBALANCED = "unbalanced"
    SAVE = "save"
    SAVE_FAILED = "save failed"
    OPENED = "opened"
    FINISHED = "finished"
    FORGOTTEN = "forgotten"
    REGISTERED = "registered"
    STARTED = "started"
    RESTARTED = "restarted"


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence on what happened, and what it is about."""

    kind: NoticeKind
    words: str
    job: str | None = None
    iteration: int | None = None
    task: int | None = None
    attempt: int | None = None
    worker: str | None = None
    reader: int | None = None


_LEVELS = {
    NoticeKind.LOST: logging.WARNING,
    NoticeKind.SAVE_FAILED: logging.WARNING,
    NoticeKind.SAVE: logging.DEBUG,
    NoticeKind.MOVED: logging.DEBUG,
    NoticeKind.LEFT: logging.DEBUG,
}
"""Others are logged as INFO. What is of no use in each log is DEBUG."""


class FactLog:
    """Logs what is of interest, and tells *hear* the same, if that is set."""

    def __init__(self) -> None:
        self.hear: Callable[[Notice], None] | None = None

    def log(self, fact: Fact, state: DispatcherState) -> None:
        """Log *fact*, already applied to *state*, if it is of interest."""
        notice = log_fact(fact, state)
        if notice is not None and self.hear is not None:
            self.hear(notice)


def log_fact(fact: Fact, state: DispatcherState) -> Notice | None:
    """Log *fact*, already applied to *state*, if it is of interest; return what it says."""
    notice = notice_of(fact, state)
    if notice is not None:
        drained = isinstance(fact, WorkerLost) and fact.drained
        level = logging.INFO if drained else _LEVELS.get(notice.kind, logging.INFO)
        if log.isEnabledFor(level):
            log.log(level, "%s", notice.words, extra=_about(notice))
    return notice


def _about(notice: Notice) -> dict[str, object]:
    return log_lines.about(**{name: getattr(notice, name) for name in log_lines.FIELDS})


def notice_of(fact: Fact, state: DispatcherState) -> Notice | None:
    """Return what is told of *fact*, already applied to *state*; None if it is of no interest."""
    match fact:
        case WorkerRegistered() | WorkerLost():
            return _of_worker(fact)
        case ReaderJoined() | ReaderRemoved():
            return _of_reader(fact, state)
        case AttemptStarted() | TaskFailed():
            return _of_task(fact, state)
        case IdRegistered() | DatasetForgotten():
            return _of_dataset(fact)
        case IterationOpened() | IterationFinished() | IterationDeleted() | SaveCompleted():
            return _of_iteration(fact, state)
        case _:
            return None


def _of_worker(fact: WorkerRegistered | WorkerLost) -> Notice:
    match fact:
        case WorkerLost(drained=False):
            kind, became = NoticeKind.LOST, "is lost"
        case WorkerLost():
            kind, became = NoticeKind.LEFT, "is gone"
        case _:
            kind, became = NoticeKind.JOINED, "registered"
    return Notice(kind, f"worker {fact.worker} {became}", worker=fact.worker)


def _of_dataset(fact: IdRegistered | DatasetForgotten) -> Notice:
    dataset = printable(fact.dataset)
    match fact:
        case IdRegistered(dataset_id):
            words = f"dataset {dataset} is registered as {printable(dataset_id)}"
            return Notice(NoticeKind.REGISTERED, words)
        case DatasetForgotten():
            words = f"dataset {dataset} is forgotten: nothing uses it"
            return Notice(NoticeKind.FORGOTTEN, words)


def _of_iteration(fact: JobFact, state: DispatcherState) -> Notice | None:
    match fact:
        case IterationOpened(iteration, job, repetition):
            words = f"job {printable(job)}: repetition {repetition} is iteration {iteration}"
            return Notice(NoticeKind.OPENED, words, job, iteration)
        case IterationFinished(iteration):
            words, kind = f"iteration {iteration} is finished", NoticeKind.FINISHED
        case IterationDeleted(iteration):
            words, kind = f"iteration {iteration} is forgotten", NoticeKind.FORGOTTEN
        case SaveCompleted(iteration, SaveResult(missing=(_, *_) as missing)):
            without = printable(", ".join(missing))
            words = f"a save of iteration {iteration} goes without {without}"
            kind = NoticeKind.SAVE_FAILED
        case SaveCompleted(iteration, SaveResult(failure=Failure() as failure)):
            words = f"iteration {iteration} is not saved: {printable_lines(str(failure.error()))}"
            kind = NoticeKind.SAVE_FAILED
        case SaveCompleted(iteration):
            words, kind = f"iteration {iteration} is saved", NoticeKind.SAVE
        case _:
            return None
    return Notice(kind, words, _job(iteration, state), iteration)


def _of_reader(fact: ReaderJoined | ReaderRemoved, state: DispatcherState) -> Notice:
    known = state.iterations.get(fact.iteration)
    who = f"reader {fact.reader}" if known is None else known.describe_reader(fact.reader)
    match fact:
        case ReaderRemoved(iteration, status=ReaderStatus.EXPIRED):
            kind, words = NoticeKind.LOST, f"{who} of iteration {iteration} expired"
        case ReaderRemoved(iteration):
            kind, words = NoticeKind.LEFT, f"{who} left iteration {iteration}"
        case ReaderJoined(iteration):
            kind, words = NoticeKind.JOINED, f"{who} reads iteration {iteration}"
    return Notice(kind, words, _job(iteration, state), iteration, reader=fact.reader)


def _of_task(fact: AttemptStarted | TaskFailed, state: DispatcherState) -> Notice | None:
    iteration = state.owners.get(fact.task)
    job = _job(iteration, state)
    match fact:
        case TaskFailed(task, failure):
            words = f"task {task} failed: {printable_lines(str(failure.error()))}"
            return Notice(NoticeKind.FAILED, words, job, iteration, task)
        case AttemptStarted(task, attempt, worker) if attempt > 1:
            words = f"task {task} goes on at worker {worker}: attempt {attempt}"
            return Notice(NoticeKind.MOVED, words, job, iteration, task, attempt, worker)
        case _:
            return None


def _job(iteration: IterationId | None, state: DispatcherState) -> str | None:
    known = None if iteration is None else state.iterations.get(iteration)
    return None if known is None else printable(known.job)

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
from penstock_dispatcher.core.datasets import DatasetForgotten, IdRegistered
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    Fact,
    IterationDeleted,
    IterationFinished,
    IterationOpened,
    IterationRestored,
    ReaderJoined,
    ReaderRemoved,
    SaveCompleted,
    TaskFailed,
    WeightsChanged,
    WorkerLost,
    WorkerRegistered,
)
from penstock_dispatcher.core.recordings import (
    RecordingEnded,
    RecordingPlaced,
    RecordingStarted,
)
from penstock_dispatcher.core.records import title_of
from penstock_dispatcher.core.state import DispatcherState

log = logging.getLogger("penstock.dispatcher")


class NoticeKind(Enum):
    """The kind of an event."""

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
    REWEIGHED = "reweighed"


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence on an event, and the names that it is about."""

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
"""Others are logged as INFO. Events that most logs do not need are DEBUG."""


_OfIteration = IterationOpened | IterationFinished | IterationDeleted | SaveCompleted


class FactLog:
    """Logs interesting facts, and passes their notices to *hear*, if that is set.

    It begins with *state*, and remembers what passes are called: a deleted one is not in the state.
    """

    def __init__(self, state: DispatcherState) -> None:
        self.hear: Callable[[Notice], None] | None = None
        self._titles = {name: one.title for name, one in state.iterations.items()}

    def log(self, fact: Fact, state: DispatcherState) -> None:
        """Log *fact*, already applied to *state*, if it is of interest."""
        title = ""
        match fact:
            case IterationOpened(iteration) | IterationRestored(iteration):
                self._titles[iteration] = title_of(fact.job, fact.repetition)
            case IterationDeleted(iteration):
                title = self._titles.pop(iteration, "")
        notice = log_fact(fact, state, title)
        if notice is not None and self.hear is not None:
            self.hear(notice)


def log_fact(fact: Fact, state: DispatcherState, title: str = "") -> Notice | None:
    """Log *fact*, already applied to *state*, if it is of interest; return its notice.

    *title* is what the pass is called, if *fact* has deleted it.
    """
    notice = notice_of(fact, state, title)
    if notice is not None:
        drained = isinstance(fact, WorkerLost) and fact.drained
        level = logging.INFO if drained else _LEVELS.get(notice.kind, logging.INFO)
        if log.isEnabledFor(level):
            log.log(level, "%s", notice.words, extra=_about(notice))
    return notice


def _about(notice: Notice) -> dict[str, object]:
    return log_lines.about(**{name: getattr(notice, name) for name in log_lines.FIELDS})


def notice_of(fact: Fact, state: DispatcherState, title: str = "") -> Notice | None:
    """Return the notice of *fact*, already applied to *state*; None if it is of no interest.

    *title* is what the pass is called, if *fact* has deleted it.
    """
    found: Notice | None = None
    match fact:
        case WorkerRegistered() | WorkerLost():
            found = _of_worker(fact)
        case ReaderJoined() | ReaderRemoved():
            found = _of_reader(fact, state)
        case AttemptStarted() | TaskFailed():
            found = _of_task(fact, state)
        case IdRegistered() | DatasetForgotten() | WeightsChanged():
            found = _of_dataset(fact, state)
        case RecordingStarted() | RecordingPlaced() | RecordingEnded():
            found = _of_recording(fact, state)
        case IterationOpened() | IterationFinished() | IterationDeleted() | SaveCompleted():
            found = _of_iteration(fact, state, title)
        case _:
            pass
    return found


def _of_weights(fact: WeightsChanged, state: DispatcherState) -> Notice:
    job, stage = printable(fact.job), fact.change.stage
    dataset = state.datasets[state.jobs[fact.job].parameters.dataset]
    mixture = dataset.providers[fact.provider].mixture
    names = () if mixture is None else mixture.names
    total = sum(stage.parts)
    shares = ", ".join(
        f"{printable(name)} {part / total:.3g}"
        for name, part in zip(names, stage.parts, strict=False)
    )
    words = f"job {job} has the weights {shares} from turn {stage.begin} on"
    return Notice(NoticeKind.REWEIGHED, words, job, fact.iteration)


def _of_recording(
    fact: RecordingStarted | RecordingPlaced | RecordingEnded, state: DispatcherState
) -> Notice | None:
    known = state.recordings.get(fact.save_id)
    which = f"the save to {printable(fact.save_id if known is None else known.path)}"
    match fact:
        case RecordingStarted():
            return Notice(NoticeKind.OPENED, f"{which} begins")
        case RecordingPlaced(_, worker, attempt):
            words = f"worker {worker} commits {which}: attempt {attempt}"
            return Notice(NoticeKind.MOVED, words, worker=worker)
        case RecordingEnded(failure=Failure() as failure):
            words = f"{which} failed: {printable_lines(str(failure.error()))}"
            return Notice(NoticeKind.FAILED, words)
        case RecordingEnded(_, stage, progress):
            words = f"{which} is {stage}: it has {progress.elements:,} elements"
            return Notice(NoticeKind.FINISHED, words)


def _of_worker(fact: WorkerRegistered | WorkerLost) -> Notice:
    match fact:
        case WorkerLost(drained=False):
            kind, became = NoticeKind.LOST, "is lost"
        case WorkerLost():
            kind, became = NoticeKind.LEFT, "is gone"
        case _:
            kind, became = NoticeKind.JOINED, "registered"
    return Notice(kind, f"worker {fact.worker} {became}", worker=fact.worker)


def _of_dataset(
    fact: IdRegistered | DatasetForgotten | WeightsChanged, state: DispatcherState
) -> Notice:
    if isinstance(fact, WeightsChanged):
        return _of_weights(fact, state)
    dataset = printable(fact.dataset)
    match fact:
        case IdRegistered(dataset_id):
            words = f"dataset {dataset} is registered as {printable(dataset_id)}"
            return Notice(NoticeKind.REGISTERED, words)
        case DatasetForgotten():
            words = f"dataset {dataset} is forgotten: nothing uses it"
            return Notice(NoticeKind.FORGOTTEN, words)


def _of_iteration(fact: _OfIteration, state: DispatcherState, title: str) -> Notice | None:
    if isinstance(fact, IterationOpened):
        words = f"{title_of(fact.job, fact.repetition)} begins"
        return Notice(NoticeKind.OPENED, words, fact.job, fact.iteration)
    which = title or _title(fact.iteration, state)
    match fact:
        case IterationFinished(iteration):
            words, kind = f"{which} is finished", NoticeKind.FINISHED
        case IterationDeleted(iteration):
            words, kind = f"{which} is forgotten", NoticeKind.FORGOTTEN
        case SaveCompleted(iteration, SaveResult(missing=(_, *_) as missing)):
            without = printable(", ".join(missing))
            words = f"a save of {which} goes without {without}"
            kind = NoticeKind.SAVE_FAILED
        case SaveCompleted(iteration, SaveResult(failure=Failure() as failure)):
            words = f"{which} is not saved: {printable_lines(str(failure.error()))}"
            kind = NoticeKind.SAVE_FAILED
        case SaveCompleted(iteration):
            words, kind = f"{which} is saved", NoticeKind.SAVE
        case _:
            return None
    return Notice(kind, words, _job(iteration, state), iteration)


def _of_reader(fact: ReaderJoined | ReaderRemoved, state: DispatcherState) -> Notice:
    known = state.iterations.get(fact.iteration)
    reader = None if known is None else known.readers.get(fact.reader)
    process = None if reader is None else reader.process
    who = f"reader {fact.reader}" if process is None else f"the reader on {process}"
    which = _title(fact.iteration, state)
    match fact:
        case ReaderRemoved(iteration, status=ReaderStatus.EXPIRED):
            kind, words = NoticeKind.LOST, f"{who} expired: it read {which}"
        case ReaderRemoved(iteration):
            kind, words = NoticeKind.LEFT, f"{who} left {which}"
        case ReaderJoined(iteration):
            kind, words = NoticeKind.JOINED, f"{who} reads {which}"
    return Notice(kind, words, _job(iteration, state), iteration, reader=fact.reader)


def _of_task(fact: AttemptStarted | TaskFailed, state: DispatcherState) -> Notice | None:
    iteration = state.owners.get(fact.task)
    job, which = _job(iteration, state), f"task {fact.task}"
    if iteration is not None and (known := state.iterations.get(iteration)) is not None:
        which = f"{known.describe_task(fact.task)} of {known.title}"
    match fact:
        case TaskFailed(task, failure):
            words = f"{which} failed: {printable_lines(str(failure.error()))}"
            return Notice(NoticeKind.FAILED, words, job, iteration, task)
        case AttemptStarted(task, attempt, worker) if attempt > 1:
            words = f"{which} moves to worker {worker}: attempt {attempt}"
            return Notice(NoticeKind.MOVED, words, job, iteration, task, attempt, worker)
        case _:
            return None


def _title(iteration: IterationId, state: DispatcherState) -> str:
    known = state.iterations.get(iteration)
    return f"iteration {iteration}" if known is None else known.title


def _job(iteration: IterationId | None, state: DispatcherState) -> str | None:
    known = None if iteration is None else state.iterations.get(iteration)
    return None if known is None else printable(known.job)

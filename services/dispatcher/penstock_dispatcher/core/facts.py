"""Decisions as facts: the dispatcher's history is a list of them.

Each fact is a plain value that could be written to disk. Replaying all of them into an empty state
gives an equal state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.calls import JobParameters
from penstock.protocol.control import SaveResult, SkippedError
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.nearness import UNKNOWN_WORKER, WorkerProfile
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.splits import Split
from penstock.protocol.types import (
    Checkpoint,
    Failure,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_dispatcher.core.datasets import DatasetFact
from penstock_dispatcher.core.fact_values import (
    AccountTotals,
    AttemptTotals,
    ProviderPosition,
    RestoredRounds,
    RestoredStride,
    RestoredTask,
    Unfinished,
    WeightChange,
)
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.recordings import RecordingFact


@dataclass(frozen=True, slots=True)
class TaskCounted:
    """All of a task was made: *total* elements. So it is known where the next one begins.

    Of one order that goes to several consumers; all tasks before this one are counted.
    """

    task: TaskId
    total: int


@dataclass(frozen=True, slots=True)
class ConsumerJoined:
    """A reader is consumer *index* of coordinated reads, from round *start* on."""

    iteration: IterationId
    reader: ReaderId
    index: int
    stamp: int
    start: int


@dataclass(frozen=True, slots=True)
class ConsumerEnded:
    """A consumer took all rounds of the pass, of which its loop had *consumed* elements.

    Its loop hears of the end after this fact is written: the process may then never report again.
    """

    iteration: IterationId
    reader: ReaderId
    consumed: int


@dataclass(frozen=True, slots=True)
class RoundsAdvanced:
    """These tasks are what the next rounds are made of; all rounds below *floor* are settled.

    All groups of the tasks in *totals* are released; the values are the tasks' numbers of elements.
    Once it is known, *last* is the round with which the pass ends, with *failed* because of that
    task.
    """

    iteration: IterationId
    entries: tuple[TaskId, ...]
    floor: int
    totals: Mapping[TaskId, int] = field(default_factory=dict)
    last: int | None = None
    failed: TaskId | None = None


RoundsFact: TypeAlias = ConsumerJoined | ConsumerEnded | RoundsAdvanced


@dataclass(frozen=True, slots=True)
class ErrorsSkipped:
    """A task has left out *count* elements in all; *first* are those of them that are kept now."""

    task: TaskId
    count: int
    first: tuple[SkippedError, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainersReported:
    """The account of a task's elements for *trainers*, as workers and readers reported it."""

    task: TaskId
    trainers: Mapping[str, TrainerProgress]


@dataclass(frozen=True, slots=True)
class TrainerDone:
    """Nothing of a task comes to *trainer* any more: all there is was acked."""

    task: TaskId
    trainer: str
    progress: TrainerProgress


CacheFact: TypeAlias = TrainersReported | TrainerDone


# --- jobs ---


@dataclass(frozen=True, slots=True)
class HistoryStarted:
    """A history began. Ids count from *history* on, so that no two histories share any."""

    history: int


@dataclass(frozen=True, slots=True)
class JobCreated:
    """A job exists. A private one was created by a reader that gave no name."""

    job: str
    parameters: JobParameters
    seed: int
    private: bool


@dataclass(frozen=True, slots=True)
class IterationOpened:
    """A pass of a job exists. *listings* outline the files of split providers, by provider."""

    iteration: IterationId
    job: str
    repetition: int
    seed: int
    listings: Mapping[int, ListingOutline]


@dataclass(frozen=True, slots=True)
class IterationRestored:
    """A pass of a job continues from a saved state; *origin* is the state's digest.

    The job also continues from it: with *job_seed*, and the repetition after this one. *tasks* were
    not done; the next one has the number *next_task*. *before* is the account up to the save.
    """

    iteration: IterationId
    job: str
    repetition: int
    seed: int
    job_seed: int
    origin: str
    providers: tuple[ProviderPosition, ...]
    tasks: tuple[RestoredTask, ...]
    next_task: int
    before: AccountTotals
    rounds: RestoredRounds | None = None
    stride: RestoredStride | None = None
    weights: Mapping[int, tuple[WeightChange, ...]] = field(default_factory=dict)
    """The changes of weights with which the job's next pass begins, by split provider."""


@dataclass(frozen=True, slots=True)
class SaveCompleted:
    """A save succeeded or failed. The result is final and the same for all readers."""

    iteration: IterationId
    result: SaveResult


@dataclass(frozen=True, slots=True)
class IterationFinished:
    """All of an iteration was acked: the pass is over. *consumed* is as readers reported so far."""

    iteration: IterationId
    consumed: Mapping[ReaderId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IterationDeleted:
    """An iteration is deleted: it has no readers, or is *superseded* by a restored one.

    Its job remembers that it was *unfinished*, if elements of it would be handed out again.
    """

    iteration: IterationId
    superseded: bool = False
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class WeightsChanged:
    """The mixture that is split provider *provider* of a job has other weights from a turn on.

    *change* is of the pass *iteration*; None is the next one that is opened.
    """

    job: str
    iteration: IterationId | None
    provider: int
    change: WeightChange


# --- workers and readers ---


@dataclass(frozen=True, slots=True)
class WorkerRegistered:
    """A worker registered, and said this of itself; *entry* is its place in the list of workers."""

    worker: WorkerId
    incarnation: int
    entry: int | None = None
    profile: WorkerProfile = UNKNOWN_WORKER


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker is gone, or another incarnation of it began: its attempts are over.

    With *drained* that was no accident: it drained, or ran nothing and disconnected.
    """

    worker: WorkerId
    totals: Mapping[TaskId, AttemptTotals] = field(default_factory=dict)
    drained: bool = False


@dataclass(frozen=True, slots=True)
class ReaderJoined:
    """A reader joined, as one of *trainer*'s perhaps: from now on its reports are waited for."""

    iteration: IterationId
    reader: ReaderId
    session: str
    process: ReaderProcess | None = None
    trainer: str = ""


@dataclass(frozen=True, slots=True)
class ReaderRemoved:
    """A reader left or expired. *acked* has all its known acks, which count for its trainer.

    Of one that expired, *in_doubt* is what else it may have consumed of tasks that no worker runs,
    as far as it reported on them. *last_heard* is seconds since 1970. A consumer took the rounds
    below *taken*.
    """

    iteration: IterationId
    reader: ReaderId
    status: ReaderStatus
    acked: Mapping[TaskId, AckedSet]
    consumed: int = 0
    last_heard: float = 0.0
    in_doubt: Mapping[TaskId, RangeSet] = field(default_factory=dict)
    taken: int = 0


@dataclass(frozen=True, slots=True)
class ConsumptionReported:
    """A reader reports after the end how much it *consumed* or had *taken*; *last*: finally."""

    iteration: IterationId
    reader: ReaderId
    consumed: int
    last: bool
    taken: int = 0


# --- tasks ---


@dataclass(frozen=True, slots=True)
class TaskCreated:
    """An iteration has one more task; *index* is its number there."""

    task: TaskId
    iteration: IterationId
    index: int


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A worker shall run a task; *unacked* is what readers have buffered of the attempt before.

    Acks of the readers in *unknown* on these elements are lost. *trainers* are those of a cached
    job.
    """

    task: TaskId
    attempt: int
    worker: WorkerId
    acked: AckedSet
    unacked: Mapping[ReaderId, RangeSet]
    unknown: tuple[ReaderId, ...] = ()
    trainers: Mapping[str, TrainerProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """A worker no longer runs a task that is not done."""

    task: TaskId
    totals: AttemptTotals = field(default_factory=AttemptTotals)


@dataclass(frozen=True, slots=True)
class InDoubtResolved:
    """A task's worker reported on *readers* that expired.

    *in_doubt* of their unacked elements went to others. No other process knows the elements that
    they *acked*.
    """

    task: TaskId
    readers: tuple[ReaderId, ...]
    in_doubt: int = 0
    acked: AckedSet = NOTHING_ACKED


@dataclass(frozen=True, slots=True)
class SplitsGranted:
    """These splits were appended to a task's log of a provider. An empty one ends a pass."""

    task: TaskId
    provider: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A task can continue from here; the logs before it are forgotten."""

    task: TaskId
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class TaskDone:
    """All elements of a task were acked."""

    task: TaskId
    acked: AckedSet
    totals: AttemptTotals = field(default_factory=AttemptTotals)


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """User code failed; readers still get the elements that were produced before."""

    task: TaskId
    failure: Failure


JobFact: TypeAlias = (
    HistoryStarted
    | JobCreated
    | IterationOpened
    | IterationRestored
    | SaveCompleted
    | IterationFinished
    | IterationDeleted
    | WeightsChanged
)
PeerFact: TypeAlias = (
    WorkerRegistered | WorkerLost | ReaderJoined | ReaderRemoved | ConsumptionReported | RoundsFact
)
TaskFact: TypeAlias = (
    TaskCreated
    | AttemptStarted
    | AttemptEnded
    | InDoubtResolved
    | SplitsGranted
    | CheckpointSaved
    | TaskCounted
    | TaskDone
    | TaskFailed
)
Fact: TypeAlias = (
    JobFact | PeerFact | TaskFact | CacheFact | DatasetFact | RecordingFact | ErrorsSkipped
)

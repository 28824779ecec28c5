"""What has been decided: the dispatcher's history is a list of these facts.

Each fact is a plain value that could be written to disk. Replaying all of them into an empty state
gives an equal state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import ElementCounts, SaveResult
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.nearness import UNKNOWN_WORKER, WorkerProfile
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    Mode,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_dispatcher.core.cache_facts import CacheFact
from penstock_dispatcher.core.cache_record import TrainerTotals
from penstock_dispatcher.core.dataset_facts import DatasetFact
from penstock_dispatcher.core.error_facts import ErrorsSkipped
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.rounds_facts import RestoredRounds, RoundsFact
from penstock_dispatcher.core.rounds_record import RoundsAccount
from penstock_dispatcher.core.stride_facts import RestoredStride, TaskCounted

# --- what facts are made of ---


@dataclass(frozen=True, slots=True)
class JobParameters:
    """What all readers of one job must agree on; static sharding cuts it into *shards* parts."""

    dataset: DatasetId
    mode: Mode
    codec: Codec
    num_consumers: int | None
    shared_cache: bool
    target_workers: str
    ordered: bool
    remainder: str
    patience: int | None = None
    when_full: str = ""
    dataset_id: str = ""
    on_error: str = "raise"
    max_errors: int | None = None
    shards: int = 0
    stride: int | None = None
    """How many consumers there are of one order, each of which gets every n-th element."""
    seed: int | None = None
    """What readers gave as the job's seed; None lets the dispatcher draw one."""


@dataclass(frozen=True, slots=True)
class AttemptTotals:
    """What an attempt had cost by its last heartbeat, and the next number that it produces."""

    head: int = 0
    counts: ElementCounts = field(default_factory=ElementCounts)


@dataclass(frozen=True, slots=True)
class InDoubt:
    """So many elements were requeued although one of *readers* may have consumed them.

    None is an unknown number: all that was acked *since* then (in seconds since 1970).
    """

    readers: tuple[ReaderId, ...]
    elements: int | None
    since: float


@dataclass(frozen=True, slots=True)
class AccountTotals:
    """What became of elements, summed up. *unreported* readers may have consumed more."""

    counts: ElementCounts = field(default_factory=ElementCounts)
    elements: int = 0
    acked: int = 0
    consumed: int = 0
    unreported: int = 0
    splits: int = 0
    units: int = 0
    in_doubt: tuple[InDoubt, ...] = ()
    rounds: RoundsAccount = field(default_factory=RoundsAccount)
    trainers: Mapping[str, TrainerTotals] = field(default_factory=dict)
    moved: bool = False
    """Of a cached job: whether some attempt may have reported too little, as it ended early."""
    errors: int = 0
    letters: tuple[str, ...] = ()
    """Dead letters of some of the *errors* that were left out."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What was *acked* of a pass that was forgotten before its end; why it could not go on."""

    acked: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ProviderPosition:
    """Where a split provider stood: at *offset* in pass *pass_number*, over files of *listing*."""

    pass_number: int
    offset: int
    listing: ListingOutline | None


@dataclass(frozen=True, slots=True)
class RestoredTask:
    """A task to go on with. *ended* is how many passes end in each of its logs.

    *place* is that of its first element, of one order that goes to several consumers.
    """

    task: TaskId
    index: int
    checkpoint: Checkpoint
    logs: tuple[SplitLog, ...]
    ended: tuple[int, ...]
    acked: AckedSet
    place: int | None = None


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
    """A pass of a job exists that goes on from a saved state; *origin* is the state's digest.

    The job goes on from it too: with *job_seed*, and the repetition behind this one. *tasks* were
    not done; the next one has the number *next_task*. *before* is the account of what came before.
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


@dataclass(frozen=True, slots=True)
class SaveCompleted:
    """A save succeeded or failed, for all readers and for ever."""

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
    """A reader left or expired; *acked* is all that is known to be acked, for its trainer.

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
    """What a reader *consumed*, and a consumer had *taken*, told behind the end; *last*: in all."""

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

    What the readers in *unknown* acked of that is lost. *trainers* are those of a cached job.
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
    """A task's worker reported what it knew of *readers* that expired.

    *in_doubt* of their unacked elements went to others. No other process knows what they *acked*.
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
    """A task can go on from here; the logs before it are forgotten."""

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
    """User code failed; what was produced before is still served."""

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
Fact: TypeAlias = JobFact | PeerFact | TaskFact | CacheFact | DatasetFact | ErrorsSkipped

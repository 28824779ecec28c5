"""Messages between the dispatcher and its workers and readers: plain values, no gRPC.

Control messages are levels, not edges: a heartbeat carries all that its sender is, the answer all
that it should be. So a message lost, doubled or late costs time and nothing else. Guards are
comparisons: attempt (per task, only grows), incarnation (per life of a worker), subscription (per
reader and task), revision (how long the dispatcher's history was), the position in a split log.

What the other side confirmed is left out: of a view, tasks as they were at the revision that the
reader named (`ReaderHeartbeat.tasks_as_of`); of a heartbeat, reports of tasks whose worker hears
all this reader acks, and those that this life of the dispatcher (`ReaderView.life`) answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.protocol.cache import Cached, CacheView, TrainerProgress
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.reader_process import ReaderProcess
from penstock.protocol.rounds import Grouped, RoundsReport, RoundsView
from penstock.protocol.skipped_errors import SkippedErrors
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.static_shard import StaticShard
from penstock.protocol.stride import Stride
from penstock.protocol.types import (
    AT_START,
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    Mode,
    ReaderId,
    ReaderStatus,
    TaskId,
    Versions,
    WorkerId,
)

# --- jobs: client and dispatcher, unary ---


@dataclass(frozen=True, slots=True)
class OpenIterationRequest:
    """A reader asks for *repetition* of the job *job_name*; what does not exist yet is made.

    Without a name the job is private to this call. A job that exists must have been made with
    the same dataset and parameters. Without a *seed* a new job gets a new one.
    """

    versions: Versions
    dataset: DatasetId
    mode: Mode
    job_name: str | None
    repetition: int
    codec: Codec
    num_consumers: int | None = None
    trainer: str | None = None
    target_workers: str = "AUTO"
    ordered: bool = False
    remainder: str = "drop"
    restore: bytes = b""
    """A job's saved state, to go on from: `SaveResult.state` of a save."""
    replaces: tuple[str, ...] = ()
    """Session ids of readers that leave when this has succeeded: they do not go on reading."""
    patience: int | None = None
    when_full: str = ""
    """Of a job with a *trainer*: a value of `penstock.protocol.cache.WhenFull`."""
    dataset_id: str = ""
    """The id that *dataset* is read by; empty for a reader that has the pipeline itself."""
    on_error: str = ""
    """A value of `penstock.protocol.skipped_errors.OnError`; nothing is to raise."""
    max_errors: int | None = None
    """How many elements of a pass may be left out; None is any number."""
    stride: int | None = None
    """Of one order, read in no rounds: each of so many consumers gets every n-th element."""
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIterationReply:
    """The iteration to read, and the seconds between its readers' heartbeats.

    *read_before* says, as text, what of it readers that are gone have read; empty if none did.
    """

    iteration: IterationId
    job_name: str
    heartbeat_interval: float
    reader_lease: float
    read_before: str = ""


# --- worker and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class ElementCounts:
    """What an attempt has cost so far, in elements: they are for the account only.

    *produced* counts what runners made, *replayed* what of that had been made in this attempt
    before; *sent* what readers were sent, *requeued* what they requeued, *skipped* what the
    pipeline left out on purpose, as often as it did. *nondeterministic* counts elements replayed by
    a pipeline that may not produce the same ones.
    """

    produced: int = 0
    replayed: int = 0
    sent: int = 0
    requeued: int = 0
    skipped: int = 0
    nondeterministic: int = 0


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """How far a worker is with an attempt.

    *acked* is joined over all readers. *checkpoint* is the newest engine state that lies behind
    everything acked. *head* is the number of the next element to be made: of how many there are,
    once it has *ended*; with *all_sent* readers have what is not acked of them. *in_doubt* is how
    many numbers were requeued because their reader expired; one may be so several times.
    """

    attempt: int
    head: int
    acked: AckedSet
    checkpoint: Checkpoint | None = None
    done: bool = False
    failure: Failure | None = None
    counts: ElementCounts = ElementCounts()
    in_doubt: int = 0
    lacking: str = ""
    """Why there is no room for its runner now. An attempt that ended so may run elsewhere."""
    ended: bool = False
    trainers: Mapping[str, TrainerProgress] = field(default_factory=dict)
    """Of a cached job. *acked* is then what all trainers that are read have."""
    errors: SkippedErrors | None = None
    """What was left out before *head*, also by earlier attempts."""
    all_sent: bool = False
    processes: int = 0
    """In how many processes of its own its functions are called."""


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """What a worker runs, and what it started once and no longer runs."""

    worker: WorkerId
    incarnation: int
    revision: int
    progress: Mapping[TaskId, AttemptProgress] = field(default_factory=dict)
    ended: frozenset[tuple[TaskId, int]] = frozenset()
    draining: bool = False
    versions: Versions | None = None
    stats: bytes = b""
    """The worker's `Stats` as JSON, for status calls; may be empty."""
    profile: WorkerProfile | None = None
    seq: int = 0
    """Counts the heartbeats of this incarnation, from 1 on: it goes back in a copy of it."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """An attempt needs the split at *position* of its log of *provider*."""

    worker: WorkerId
    incarnation: int
    task: TaskId
    attempt: int
    provider: int
    position: int


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """An attempt of a task to run: where to start, and what readers have.

    *index* is the task's number within its iteration: seeds depend on it. *logs* has one split
    log a provider; it is empty where each task reads everything (OFF).
    """

    task: TaskId
    index: int
    attempt: int
    iteration: IterationId
    dataset: DatasetId
    seed: int
    codec: Codec
    checkpoint: Checkpoint = AT_START
    logs: tuple[SplitLog, ...] = ()
    acked: AckedSet = NOTHING_ACKED
    unacked: Mapping[ReaderId, RangeSet] = field(default_factory=dict)
    grouped: Grouped | None = None
    """Of coordinated reads: how elements are cut into groups. Then nobody has anything unacked."""
    cached: Cached | None = None
    skip_errors: bool = False
    """Whether elements that cannot be made are left out."""
    static: StaticShard | None = None
    """Of static sharding: the part that has the number *index*."""
    ordered: bool = False
    """Whether it is one of many short tasks, which are read in the order of their indexes."""
    stride: Stride | None = None
    """Which of its elements go to which consumer, if they do."""

    @property
    def fills_slot(self) -> bool:
        """Whether its worker may run others of the iteration beside it, as it has slots."""
        return bool(self.logs) and self.grouped is None and self.cached is None


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a worker should be doing now, and the status of all readers.

    A task that is not listed stops. *heartbeat_interval* is in seconds. With *drain* the worker is
    to leave in order: it asks for no more splits, serves what is ready, and ends its attempts.
    """

    revision: int
    incarnation: int
    tasks: tuple[TaskAssignment, ...]
    readers: Mapping[ReaderId, ReaderStatus]
    heartbeat_interval: float
    drain: bool = False


@dataclass(frozen=True, slots=True)
class SplitGrant:
    """The log of *provider* from *position* on."""

    task: TaskId
    attempt: int
    provider: int
    position: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class WorkerRefused:
    """The dispatcher will not have this worker; it should stop with this error."""

    failure: Failure


WorkerEvent = WorkerHeartbeat | SplitRequest
WorkerCommand = Assignment | SplitGrant | WorkerRefused


# --- reader and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a reader reports of one task: it accepts no frame of attempts below *fence*."""

    fence: int
    acked: AckedSet
    buffered: RangeSet = NO_RANGES


@dataclass(frozen=True, slots=True)
class SaveBarrier:
    """A reader hands out nothing until a result of save *number* of its iteration comes.

    *label* is the save's name; the others get *timeout* seconds to come to the same barrier. With
    *without_missing* the job is saved without those that do not, and what they may have consumed
    is in doubt.
    """

    number: int
    label: str
    timeout: float
    without_missing: bool = False


@dataclass(frozen=True, slots=True)
class SaveResult:
    """What became of save *number*, the same for all: the job's *state* as JSON, or a *failure*.

    *missing* names the readers that the state goes without.
    """

    number: int
    label: str
    state: bytes = b""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()


def describe_save(label: str) -> str:
    """Return the call by which a save of this *label* was asked for."""
    return f"save_job({label!r})" if label else "state()"


@dataclass(frozen=True, slots=True)
class UnreachableWorker:
    """This incarnation of a worker does not answer a reader, and has not for *seconds*."""

    incarnation: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReaderHeartbeat:
    """All that a reader is and has. Without an id it asks for one.

    *reports* has each task that no worker runs, or whose worker this reader does not reach; at a
    barrier, and when it leaves, all. *consumed* is how many elements its training loop got, under
    all its ids. *unreachable* are the workers that it tried to read from, in vain; those that it
    has left stay there for a while.
    """

    iteration: IterationId
    session: str
    reader: ReaderId | None
    seq: int
    reports: Mapping[TaskId, TaskReport] = field(default_factory=dict)
    barrier: SaveBarrier | None = None
    leaving: bool = False
    consumed: int = 0
    process: ReaderProcess | None = None
    unreachable: Mapping[WorkerId, UnreachableWorker] = field(default_factory=dict)
    rounds: RoundsReport | None = None
    """Of a consumer of coordinated reads, which has no *reports*."""
    trainer: str = ""
    """Of a reader of a cached job: whose it is."""
    in_process: Mapping[WorkerId, int] = field(default_factory=dict)
    """The workers in this reader's process, with their incarnations."""
    transports: Mapping[str, int] = field(default_factory=dict)
    """How many workers it reads by each transport."""
    loop: LoopTime | None = None
    """How much of its time the training loop waited, of late."""
    links: tuple[LinkTraffic, ...] = ()
    """What came from workers, the most first; of many workers not all are named."""
    consumer: int | None = None
    """Which one it is, of consumers of one order."""
    tasks_as_of: int = 0
    """The revision as of which it knows all tasks; 0 before it does."""
    unacked: int | None = None
    """How many elements it has that are not acked; None is what all *reports* say."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """Where a task can be read. Without a worker its attempt is over: the reader reports on it.

    *incarnation* is that of the worker that runs it, *profile* what that says of itself. Of
    coordinated reads, *released* groups are in the log of rounds, and all consumers have taken all
    elements below *floor*.
    """

    attempt: int
    worker: WorkerId | None
    failure: Failure | None = None
    incarnation: int = 0
    released: int = 0
    floor: int = 0
    profile: WorkerProfile | None = None


@dataclass(frozen=True, slots=True)
class ReaderView:
    """All that a reader should know. *seq* is the one answered, if one is.

    *waiting_for* says, as text, what keeps the iteration from going on, if anything does;
    *on_readers* whether among that are silent readers, which expire when their lease is over.
    *save_results* are the newest ones; the next save has the number *next_save*. *held_by* says, as
    text, what silent readers buffered.

    With *changes_since*, *tasks* are those that changed since that revision, and *over* those that
    are no more: whoever knows the tasks as of that revision, or a later one, knows all as of this
    one. Without it *tasks* are all.
    """

    revision: int
    session: str
    reader: ReaderId
    status: ReaderStatus
    seq: int | None
    tasks: Mapping[TaskId, TaskView]
    finished: bool = False
    save_results: tuple[SaveResult, ...] = ()
    next_save: int = 0
    waiting_for: str = ""
    on_readers: bool = False
    held_by: str = ""
    rounds: RoundsView | None = None
    cache: CacheView | None = None
    more_tasks: bool = False
    """Of a job that is read in order: whether tasks follow behind those that there are."""
    changes_since: int | None = None
    over: tuple[TaskId, ...] = ()
    life: int = 0
    """Which life of the dispatcher says so; 0 is of one that wants all reports each time."""
    deferred: bool = False
    """Whether the heartbeat that is answered is not heard yet: its reports do not count."""

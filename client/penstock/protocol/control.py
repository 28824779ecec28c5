"""Messages between the dispatcher and its workers and readers: plain values, no gRPC.

A heartbeat carries its sender's whole state, and the answer carries the whole state it should have.
So a lost, repeated or late message costs only time. Receivers reject old messages by comparing
numbers: attempt (per task, only grows), incarnation (per life of a worker), subscription (per
reader and task), revision (length of the dispatcher's journal), and position in a split log.

Messages leave out what the other side confirmed. A view omits tasks that have not changed since
`ReaderHeartbeat.tasks_as_of`. A heartbeat omits reports of tasks whose worker gets all acks itself,
and reports that this life of the dispatcher (`ReaderView.life`) has answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.protocol.cache import Cached, CacheView, TrainerProgress
from penstock.protocol.loop_time import LinkTraffic, LoopTime, ReaderProcess
from penstock.protocol.measures import Measure
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.recording import RecordingAssignment, RecordingReport
from penstock.protocol.rounds import Grouped, RoundsReport, RoundsView, Stride
from penstock.protocol.splits import Split, SplitLog, StaticShard
from penstock.protocol.types import (
    AT_START,
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    Uint64,
    Versions,
    WorkerId,
)

# --- elements that a job skips because users' functions raised ---
#
# Each task counts its skipped elements in the order of its stream, and saves the count with the
# engine's state. So an attempt that produces a part of the stream again reaches the same count.

FIRST = 4
"""How many skipped elements of a run have their dead letters sent: the first ones."""


@dataclass(frozen=True, slots=True)
class SkippedError:
    """A skipped element: the *number*-th of its task, from 1; *letter* is its JSON text."""

    number: int
    letter: str


@dataclass(frozen=True, slots=True)
class SkippedErrors:
    """How many elements of a task were skipped so far, with details of the *first* ones."""

    count: int = 0
    first: tuple[SkippedError, ...] = ()

    def plus(self, count: int, letter: str) -> SkippedErrors:
        """Return this with *count* elements, of which the last has *letter*, if that is not empty.

        A runner that replays reports some elements again; they change nothing.
        """
        if count <= self.count:
            return self
        more = (SkippedError(count, letter),) if letter and len(self.first) < FIRST else ()
        return SkippedErrors(count, self.first + more)


# --- worker and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class ElementCounts:
    """The cost of an attempt so far, in elements; used only for statistics.

    *produced* counts elements that runners made. *replayed* counts those among them that this
    attempt had made before. *sent* counts elements sent to readers, *requeued* elements that
    readers requeued. *skipped* counts each time the pipeline skipped an element on purpose.
    *nondeterministic* counts replays by a pipeline that may produce different elements. *measures*
    are what operators counted, up to the newest report of a runner.
    """

    produced: int = 0
    replayed: int = 0
    sent: int = 0
    requeued: int = 0
    skipped: int = 0
    nondeterministic: int = 0
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """How far a worker is with an attempt.

    *acked* joins the acks of all readers. *checkpoint* is the newest engine state that
    lies behind everything acked. *head* is the number of the next element to be made; if the
    attempt has *ended*, it is the number of elements. With *all_sent*, readers have all that is not
    acked. *in_doubt* counts elements requeued because their reader expired, repeats included.
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
    """Why the worker has no room for its runner now; another worker may then run the task."""
    ended: bool = False
    trainers: Mapping[str, TrainerProgress] = field(default_factory=dict)
    """Of a cached job. *acked* is then what all trainers that are read have."""
    errors: SkippedErrors | None = None
    """The elements skipped before *head*, by this and earlier attempts."""
    all_sent: bool = False
    processes: int = 0
    """How many processes of its own call its functions."""


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """The attempts that a worker runs, and those that it started and no longer runs."""

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
    """Counts the heartbeats of this incarnation from 1; a copy carries the same number."""
    recordings: tuple[RecordingReport, ...] = ()
    """Of all recordings that were assigned to it."""


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
    """An attempt of a task to run: where to start, and which elements readers have.

    *index* is the task's number within its iteration; seeds depend on it. *logs* has one split
    log per provider; it is empty if each task reads everything (OFF).
    """

    task: TaskId
    index: int
    attempt: int
    iteration: IterationId
    dataset: DatasetId
    seed: Uint64
    codec: Codec
    checkpoint: Checkpoint = AT_START
    logs: tuple[SplitLog, ...] = ()
    acked: AckedSet = NOTHING_ACKED
    unacked: Mapping[ReaderId, RangeSet] = field(default_factory=dict)
    grouped: Grouped | None = None
    """In coordinated reads: how elements are cut into groups. *unacked* is then empty."""
    cached: Cached | None = None
    skip_errors: bool = False
    """Whether the attempt skips elements that cannot be made."""
    static: StaticShard | None = None
    """In static sharding: the shard with the number *index*."""
    ordered: bool = False
    """Whether it is one of many short tasks that are read in the order of their indexes."""
    stride: Stride | None = None
    """Which of its elements go to which consumer, if consumers divide them."""

    @property
    def fills_slot(self) -> bool:
        """Whether the worker may run other tasks of the iteration in its other slots."""
        return bool(self.logs) and self.grouped is None and self.cached is None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything that a worker should run now, and the status of all readers.

    The worker stops tasks and recordings that are not listed. *heartbeat_interval* is in seconds.
    With *drain*, the worker asks for no more splits, serves the elements that are ready, and ends
    its attempts.
    """

    revision: int
    incarnation: int
    tasks: tuple[TaskAssignment, ...]
    readers: Mapping[ReaderId, ReaderStatus]
    heartbeat_interval: float
    drain: bool = False
    recordings: tuple[RecordingAssignment, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitGrant:
    """The splits of *provider*'s log, starting at *position*."""

    task: TaskId
    attempt: int
    provider: int
    position: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class WorkerRefused:
    """The dispatcher refuses this worker, which should stop with this error."""

    failure: Failure


WorkerEvent = WorkerHeartbeat | SplitRequest
"""A message from a worker to the dispatcher."""

WorkerCommand = Assignment | SplitGrant | WorkerRefused
"""A message to a worker. A refusal is the last one: the worker half-closes after it."""


# --- reader and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A reader's report on one task. It accepts no frame of attempts below *fence*."""

    fence: int
    acked: AckedSet
    buffered: RangeSet = NO_RANGES


@dataclass(frozen=True, slots=True)
class SaveBarrier:
    """A reader returns no element until the result of save *number* of its iteration comes.

    *label* is the save's name. The other readers have *timeout* seconds to reach the same barrier.
    With *without_missing*, the save leaves out the readers that do not; elements that they may have
    consumed may then be delivered twice.
    """

    number: int
    label: str
    timeout: float
    without_missing: bool = False


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The result of save *number*, the same for all readers: *state* as JSON, or a *failure*.

    *missing* names the readers that the state leaves out.
    """

    number: int
    label: str
    state: bytes = b""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()


def describe_save(label: str) -> str:
    """Return the call that asked for the save with this *label*."""
    return f"save_job({label!r})" if label else "state()"


@dataclass(frozen=True, slots=True)
class UnreachableWorker:
    """This incarnation of a worker has not answered a reader for *seconds*."""

    incarnation: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReaderHeartbeat:
    """A reader's whole state. A reader without an id asks for one.

    *reports* has each task that no worker runs or whose worker this reader cannot reach; at a
    barrier, and when the reader leaves, all tasks. *consumed* counts the elements that its training
    loop got, under all its ids. *unreachable* lists workers that it tried to read from and could
    not; a worker that the reader has left stays listed for a while.
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
    """Of a consumer in coordinated reads, which has no *reports*."""
    trainer: str = ""
    """Of a reader of a cached job: the trainer that it belongs to."""
    in_process: Mapping[WorkerId, int] = field(default_factory=dict)
    """The workers in this reader's process, with their incarnations."""
    transports: Mapping[str, int] = field(default_factory=dict)
    """How many workers it reads by each transport."""
    loop: LoopTime | None = None
    """How much of its recent time the training loop waited."""
    links: tuple[LinkTraffic, ...] = ()
    """Traffic from workers, the most first; if there are many workers, some are left out."""
    consumer: int | None = None
    """Its index among the consumers of one order."""
    tasks_as_of: int = 0
    """The revision as of which it knows all tasks; 0 before it does."""
    unacked: int | None = None
    """How many elements it has that are not acked; if None, *reports* say it."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """Where a task can be read. Without a worker, its attempt is over and the reader reports on it.

    *incarnation* and *profile* are those of the worker that runs the task. In coordinated
    reads, *released* groups are in the log of rounds, and all consumers have taken all elements
    below *floor*.
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
    """All that a reader should know. *seq* is that of the heartbeat answered, if any.

    *waiting_for* says, as text, what the iteration waits for, if anything. *on_readers* tells
    whether it waits for silent readers, which expire when their lease ends. *save_results* are the
    newest results; the next save has the number *next_save*. *held_by* says, as text, what silent
    readers buffered.

    With *changes_since*, *tasks* holds only tasks that changed since that revision, and *over* the
    tasks that ended. A reader that knows the tasks as of that revision or a later one then knows
    all tasks as of *revision*. Without *changes_since*, *tasks* holds all.
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
    """Of a job that is read in order: whether more tasks will follow the present ones."""
    changes_since: int | None = None
    over: tuple[TaskId, ...] = ()
    life: int = 0
    """The dispatcher's life; 0 is of one that wants all reports each time."""
    deferred: bool = False
    """Whether the dispatcher has not processed that heartbeat: its reports do not count yet."""

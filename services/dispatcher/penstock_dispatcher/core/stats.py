"""The figures of the dispatcher: one frozen value that status calls return as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.loop_time import LinkTraffic, LoopTime, ReaderProcess
from penstock.protocol.measures import OperatorFigures
from penstock.protocol.mixture import WeightStage
from penstock.protocol.recording import RecordingProgress, SaveStage
from penstock.protocol.types import ReaderStatus, Versions
from penstock.runtime.usage import Usage
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.facts import AttemptStarted, Fact, ReaderRemoved
from penstock_dispatcher.core.recordings import RecordingEnded


@dataclass(slots=True)
class Counts:
    """Counts of messages and decisions since the process began."""

    facts: int = 0
    opened: int = 0
    worker_heartbeats: int = 0
    reader_heartbeats: int = 0
    split_requests: int = 0
    splits: int = 0
    workers_lost: int = 0
    """Workers that were removed and did not drain, also those that ran nothing."""
    readers_expired: int = 0
    """Readers that were silent for their lease."""
    tasks_moved: int = 0
    """Attempts of tasks that had one before: the task started again, most often elsewhere."""
    saves_failed: int = 0
    saved_elements: int = 0
    saved_chunks: int = 0
    saved_bytes: int = 0

    def saved(self, before: RecordingProgress, after: RecordingProgress) -> None:
        """Count what a save has *after* a report, and did not have *before*."""
        self.saved_elements += max(0, after.elements - before.elements)
        self.saved_chunks += max(0, after.chunks - before.chunks)
        self.saved_bytes += max(0, after.nbytes - before.nbytes)

    def note(self, fact: Fact) -> None:
        """Count *fact*."""
        self.facts += 1
        match fact:
            case ReaderRemoved(status=ReaderStatus.EXPIRED):
                self.readers_expired += 1
            case AttemptStarted(attempt=attempt) if attempt > 1:
                self.tasks_moved += 1
            case RecordingEnded(stage=SaveStage.FAILED):
                self.saves_failed += 1
            case _:
                pass


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """A live worker: its own report, and the number of readers that cannot reach it."""

    address: str
    incarnation: int
    silent: float
    connected: bool
    draining: bool
    tasks: tuple[int, ...]
    stats: Any
    unreachable: int = 0
    versions: Versions | None = None
    host: str = ""
    transports: tuple[str, ...] = ()
    """The names by which readers may read it."""
    tags: tuple[str, ...] = ()
    slots: int = 1
    slots_used: int = 0
    """How many slots have a task that is made now, or are taken by processes of one."""


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that died, or was silent too long, and was last heard *heard* seconds ago."""

    address: str
    heard: float


@dataclass(frozen=True, slots=True)
class TaskStats:
    """A task of an iteration that runs."""

    task: int
    index: int
    attempt: int
    worker: str | None
    head: int
    acked: int
    splits: int
    units: int
    done: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class ReaderStats:
    """A reader of an iteration that runs; *silent* is None once it has left."""

    reader: int
    status: str
    silent: float | None
    consumed: int
    process: ReaderProcess | None = None
    trainer: str = ""
    transports: Mapping[str, int] = field(default_factory=dict)
    """How many workers it reads by each transport."""
    loop: LoopTime | None = None
    """How much of its time its loop waited, of late; None if nothing current is known of it."""
    links: tuple[LinkTraffic, ...] = ()
    """Its traffic from workers, the most first; nothing if it is silent."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """A consumer of coordinated reads: it took the rounds below *taken*.

    *reader* is its newest process; *lost* says why others wait for it in vain, if they do.
    """

    index: int
    reader: int | None
    taken: int
    lost: str


@dataclass(frozen=True, slots=True)
class RoundsStats:
    """Coordinated reads: the first round not *released*, and *floor*, below which all are taken."""

    released: int
    floor: int
    last: int | None
    consumers: tuple[ConsumerStats, ...]


@dataclass(frozen=True, slots=True)
class MixtureSourceStats:
    """A source of a mixture in the current pass. Elements count when tasks get their turns."""

    name: str
    wanted: float
    """Its share of the turns by the weights that hold now."""
    handed: int
    """How many elements of it tasks were granted."""
    acked: int
    """How many of these are in splits of which everything was acked."""
    size: int | None
    """How many elements it has; None is without end."""
    passes: int
    """How often it was handed out completely."""
    repeats_at: int | None
    """The next turn at which it begins again; None if it never does."""


@dataclass(frozen=True, slots=True)
class MixtureSpan:
    """Turns between two changes of the weights; before the first, a schedule may change them.

    *wanted* are shares at *begin*, and *handed* the elements that tasks were granted, by source.
    """

    begin: int
    end: int | None
    wanted: tuple[float, ...]
    handed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MixturePlan:
    """All that decides which source takes which turn of a pass; see `Turns`."""

    stages: tuple[WeightStage, ...]
    stop: str
    max_epochs: tuple[int | None, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class MixtureStats:
    """A mixture of a pass that runs: tasks were granted the turns before *turn*."""

    pass_number: int
    turn: int
    sources: tuple[MixtureSourceStats, ...]
    spans: tuple[MixtureSpan, ...] = ()
    """By the newest changes of the weights."""
    plan: MixturePlan | None = None
    """The newest stages of the weights: with them, the shares of any span of turns are known."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A cached pass: the numbers of elements *made*, and *sent* to single readers.

    *hit_rate* is how often each was sent. The account says what each trainer has.
    """

    when_full: str
    made: int
    sent: int
    hit_rate: float


@dataclass(frozen=True, slots=True)
class IterationStats:
    """One pass of a job."""

    iteration: int
    job: str
    repetition: int
    dataset: str
    mode: str
    finished: bool
    restored: bool
    next_save: int
    account: Account
    faults: tuple[str, ...]
    """Where the account of a finished pass does not balance: nowhere, or a guarantee was broken."""
    tasks: tuple[TaskStats, ...]
    readers: tuple[ReaderStats, ...]
    private: bool = False
    """Whether its job has no name."""
    outline: str = ""
    """The operators of its pipeline, in words."""
    unread: float | None = None
    """For how long it has had no reader, if it runs and has none."""
    readers_lost: int = 0
    """How many readers expired in whose place none has come."""
    waiting_for: str = ""
    """The reason why it stands still while readers wait, in words."""
    held_by: str = ""
    """The unacked elements of silent readers, in words."""
    rounds: RoundsStats | None = None
    """Of coordinated reads: how far they are."""
    cache: CacheStats | None = None
    """Of a cached job: what sharing saves."""
    dead_letters: tuple[Any, ...] = ()
    """Dead letters of the first elements that were left out, with ``on_error="skip"``."""
    target_workers: str = ""
    """Which workers its readers read."""
    fills_slots: bool = True
    """Whether a worker runs several of its tasks at once, as it has slots. Else it runs one."""
    slots: int = 0
    """How many tasks it may have at once, if it fills slots."""
    ordered: bool = False
    """Whether it is read in one order."""
    mixtures: tuple[MixtureStats, ...] = ()
    """Its mixtures whose turns tasks are granted."""
    figures: tuple[OperatorFigures, ...] = ()
    """The figures of its operators on workers: tokens, padding, imbalance, shares."""

    @property
    def live_readers(self) -> int:
        """How many readers read it: of a finished pass, none."""
        return 0 if self.finished else sum(r.status == "live" for r in self.readers)


@dataclass(frozen=True, slots=True)
class ForgottenStats:
    """A pass of a named job that was deleted before its end, after *acked* elements."""

    job: str
    repetition: int
    mode: str
    outline: str
    acked: int
    failed: bool


@dataclass(frozen=True, slots=True)
class RegistrationStats:
    """An id that a dataset can be read by, and the jobs with passes that do."""

    dataset_id: str
    dataset: str
    """Its fingerprint."""
    outline: str
    compression: str
    explicit: bool
    """Whether a client chose the id, so that it is kept forever."""
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SaveStats:
    """A save that a worker hosts, or hosted; *rate* is in elements a second."""

    save_id: str
    path: str
    stage: str
    worker: str
    """Its host; nothing if it has none now."""
    elements: int
    total: int | None
    nbytes: int
    rate: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class OpenedPort:
    """Where TensorFlow's clients are answered without credentials, and which *datasets* they get.

    No *address* is nowhere.
    """

    address: str = ""
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DispatcherStats:
    """All that is known of the cluster at one moment. Durations are in seconds."""

    address: str
    revision: int
    datasets: int
    jobs: int
    counts: Counts
    workers: tuple[WorkerSummary, ...]
    iterations: tuple[IterationStats, ...]
    usage: Usage | None = None
    """The usage of the dispatcher's process; the service adds it."""
    versions: Versions | None = None
    """The versions that the dispatcher speaks; the service adds it."""
    forgotten: tuple[ForgottenStats, ...] = ()
    """The newest passes that were deleted before their end."""
    registrations: tuple[RegistrationStats, ...] = ()
    """The ids that datasets can be read by."""
    saves: tuple[SaveStats, ...] = ()
    """The saves that workers host, and the newest that ended."""
    security: str = ""
    """The protection of the dispatcher; the service adds it."""
    tensorflow: OpenedPort | None = None
    """The port that answers without credentials; the service adds it."""
    http: str = ""
    """Where it answers HTTP, if it does; the service adds it."""
    ending: bool = False
    """Whether the job of its hosts is over, and it ends soon (`linger`); the service adds it."""
    halted: str = ""
    """Why it decides nothing now, if it does not; the service adds it."""
    up: float = 0.0
    """For how long the dispatcher's process has run."""
    worker_lost: float | None = None
    """How long ago a worker was lost, if one was since the process began."""
    lost_workers: tuple[LostWorker, ...] = ()
    """The workers that were lost in the last 15 minutes and have not come back."""
    restarted: bool = False
    """Whether the process continues the work of one before it; the service adds it."""

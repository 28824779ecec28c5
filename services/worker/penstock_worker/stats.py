"""Statistics that a worker reports about itself: one frozen value, made on request."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from penstock.protocol.types import WorkerId
from penstock.runtime.usage import Usage
from penstock.storage.cache_index import CacheTotals
from penstock.storage.counts import StorageCounts


@dataclass(frozen=True, slots=True)
class BufferStats:
    """A buffer of bytes. A *bound* of 0 means that something else bounds it."""

    name: str
    nbytes: int
    bound: int


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """An operator of a task: the seconds that it *worked* and *waited*, and its *elements*.

    *call* is the age in seconds of the oldest call that has not returned, or 0 if there is none.
    For *cpu* seconds of its work it used a core. The rest of the time it slept, or waited for
    files or a network.
    """

    label: str
    elements: int
    worked: float
    waited: float
    call: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How many *seconds* a run ran, was *held_up* and *starved*; see `TimesMeasured`."""

    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorStats, ...]
    """From the outermost one down."""
    remote: float = 0.0
    """Seconds of waiting for remote files."""


@dataclass(frozen=True, slots=True)
class RunnerStats:
    """A task that runs here: its next element is number *head*, all below *floor* are acked."""

    task: int
    attempt: int
    head: int
    floor: int
    ready: int
    unacked: int
    readers: int
    state: str
    compression: str = ""
    """The codec of frames; for AUTO, the codec chosen now and the reason."""
    times: RunTimes | None = None
    """How long operators worked in the task's newest runner, since that runner started."""
    newest: RunTimes | None = None
    """How long they worked in about its last ten seconds."""
    nbytes: int = 0
    """Bytes of its frames that are here."""
    room: int = 0
    """Bytes of its frames that may be here."""


@dataclass(frozen=True, slots=True)
class PastStats:
    """How long operators worked in a *task* that has ended on this worker."""

    iteration: int
    task: int
    times: RunTimes


@dataclass(frozen=True, slots=True)
class TrainerStats:
    """How far a trainer is in a cached task: *acked* counts elements that it never gets again.

    They include the elements that it *skipped* and the elements *before* it joined.
    """

    trainer: str
    acked: int
    skipped: int
    before: int
    ready: int
    unacked: int
    readers: int


@dataclass(frozen=True, slots=True)
class WindowStats:
    """The window of a cached task: it holds *nbytes* of *bound*, from element *oldest* on.

    *made* counts the elements that were produced, *sent* how often they were sent to trainers.
    """

    task: int
    job: str
    nbytes: int
    bound: int
    oldest: int
    made: int
    sent: int
    hit_rate: float
    """How often each produced element was sent, on average."""
    trainers: tuple[TrainerStats, ...]


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """All counters of a worker since it began.

    *copies* counts how often the worker copied a payload. *lent* counts frames that readers on this
    host read directly from the arena. *copied_out* counts frames that they copied out of it,
    because there was no room for kept elements or an element was larger than that room. *wakes*
    counts how often a stream had to be woken to send something. *in_doubt* counts elements that
    were requeued although an expired reader may have consumed them. *frames_dropped* counts frames
    that the worker dropped while readers had not acknowledged their elements.
    """

    worker: WorkerId
    incarnation: int
    tags: tuple[str, ...]
    draining: bool
    frames_made: int
    elements_made: int
    bytes_made: int
    frames_sent: int
    elements_sent: int
    bytes_sent: int
    elements_acked: int
    requeued: int
    in_doubt: int
    frames_dropped: int
    recalls: int
    copies: int
    lent: int
    copied_out: int
    wakes: int
    runs_started: int
    runners_lost: int
    streams: int
    tasks: tuple[RunnerStats, ...]
    buffers: tuple[BufferStats, ...]
    caches: tuple[WindowStats, ...]
    usage: Usage
    """The resources that the worker's process and its runners use."""
    past: tuple[PastStats, ...] = ()
    """The tasks that ended last: a short task ends before it can report times."""
    security: str = ""
    """How the worker is protected."""
    tensorflow: str = ""
    """The address that serves TensorFlow clients without credentials, or empty."""
    file_cache: CacheTotals | None = None
    """How full the cache of remote files on the host's disk is, if there is one."""
    http: str = ""
    """The address of its HTTP server, or empty."""
    storage: StorageCounts = field(default_factory=StorageCounts)
    """What its runners have read of remote files."""

    def as_json(self) -> bytes:
        """Write it for a status call."""
        return msgspec.json.encode(self)

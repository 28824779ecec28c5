"""What a worker reports about itself: one frozen value, made on request."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.protocol.types import WorkerId
from penstock.runtime.usage import Usage


@dataclass(frozen=True, slots=True)
class BufferStats:
    """A buffer of bytes. A *bound* of 0 means that something else bounds it."""

    name: str
    nbytes: int
    bound: int


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """An operator of a task: the seconds that it *worked* and *waited*, and its *elements*.

    The longest *call* that has not returned yet began so many seconds ago; 0 if it is in none. For
    *cpu* seconds of its work it needed a core: the rest it slept, or waited for files or a network.
    """

    label: str
    elements: int
    worked: float
    waited: float
    call: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Of so many *seconds* a run was *held_up* by frames that nobody took; see `TimesMeasured`."""

    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorStats, ...]
    """From the outermost one down."""


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
    """What frames are compressed with; of AUTO what that means now, and why."""
    times: RunTimes | None = None
    """How long operators worked, in the newest runner of it, since that began."""
    newest: RunTimes | None = None
    """How long they worked in about its last ten seconds."""
    nbytes: int = 0
    """Bytes of its frames that are here."""
    room: int = 0
    """So many may be."""


@dataclass(frozen=True, slots=True)
class PastStats:
    """How long operators worked in a *task* of a pass that is over here."""

    iteration: int
    task: int
    times: RunTimes


@dataclass(frozen=True, slots=True)
class TrainerStats:
    """What a trainer has of a cached task: *acked* counts all that it never gets again.

    Among them are those that it *skipped*, and those *before* it came.
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
    """The window of a cached task: *nbytes* of *bound* are in it, from element *oldest* on.

    Elements *made* once were *sent* so often, to all trainers together.
    """

    task: int
    job: str
    nbytes: int
    bound: int
    oldest: int
    made: int
    sent: int
    hit_rate: float
    """How often an element was sent that was made, on average."""
    trainers: tuple[TrainerStats, ...]


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """All counters of a worker since it began.

    *copies* is how often a payload was copied here, *lent* how many frames readers on this host
    looked at where they were made, and *copied_out* how many they copied there: what they keep had
    no room, or an element was larger than it. *wakes* how often a stream had to be woken
    to send something. *in_doubt* elements were requeued although an expired reader may have
    consumed them. *frames_dropped* were dropped here while readers have their elements unacked.
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
    """What the worker's process uses, and its runners."""
    past: tuple[PastStats, ...] = ()
    """The newest tasks that are over: short ones say nothing while they run."""
    security: str = ""
    """What protects the worker."""
    tensorflow: str = ""
    """Where TensorFlow's clients are answered without credentials; empty where they are not."""
    http: str = ""
    """Where it answers HTTP, if it does."""

    def as_json(self) -> bytes:
        """Write it for a status call."""
        return msgspec.json.encode(self)

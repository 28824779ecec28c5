"""What travels between dispatcher, worker and reader: plain values, no gRPC.

Control messages are levels, not edges: a beat carries all that its sender is, the answer all
that it should be. So a message lost, doubled or late costs time and nothing else. Guards are
comparisons: *attempt* (per task, only grows), *incarnation* (per life of a worker), *opening*
(per reader and task), *as_of* (how long the dispatcher's history was), the position in a log.

`penstock.wire` turns these into protobuf; their form there is in ``protos/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import PenstockError, by_name
from penstock.numbers import (
    AT_START,
    NO_RUNS,
    NOTHING,
    DatasetId,
    EngineState,
    IterationId,
    ReaderId,
    Runs,
    Split,
    SplitLog,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)

PROTOCOL = 1
"""The version of everything in this module. Additive changes keep it."""


class Mode(Enum):
    """How an iteration's data is divided over its tasks."""

    OFF = "off"
    """Each task is one whole copy."""
    DYNAMIC = "dynamic"
    """Tasks draw splits; every element once."""


class Codec(Enum):
    """How frames are compressed."""

    NONE = "none"
    LZ4 = "lz4"
    AUTO = "auto"
    """LZ4 where a sample says that it pays."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What a process speaks; in the first message of every connection."""

    protocol: int
    python: str
    penstock: str

    @property
    def minor(self) -> str:
        """Python's minor version, as 3.11: functions travel between equal ones only."""
        return ".".join(self.python.split(".")[:2])


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to a training loop: class name and `PenstockError.fields`."""

    kind: str
    fields: tuple[str | int | None, ...]

    @classmethod
    def of(cls, error: PenstockError) -> Failure:
        """Pack *error*."""
        return cls(type(error).__name__, tuple(map(_sendable, error.fields())))

    def error(self) -> PenstockError:
        """Unpack the error."""
        return by_name(self.kind, self.fields)


def _sendable(field: str | int | None) -> str | int | None:
    if isinstance(field, str):  # what a user's function raised may say what UTF-8 cannot
        return field.encode("utf-8", "backslashreplace").decode()
    return field


# --- jobs: client and dispatcher, unary ---


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Let me read *repetition* of the job *job_name*; make what does not exist yet.

    Without a name the job is private to this call. A job that exists must have been made with
    the same dataset and parameters.
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
    """A job's saved state, to go on from: `Verdict.state` of a save."""
    replaces: tuple[str, ...] = ()
    """Tokens of readers that leave when this has succeeded: they do not go on reading."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The iteration to read, and how often its readers beat (seconds).

    *read_before* says, in words, what of it others have read who are gone; nothing if none did.
    """

    iteration: IterationId
    job_name: str
    beat_interval: float
    reader_lease: float
    read_before: str = ""


# --- worker and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class Work:
    """What an attempt has cost so far, in elements: they are for the account only.

    *made* counts what runners made, *remade* what of that had been made in this attempt before;
    *sent* what readers were sent, *given_back* what they gave back unused, *skipped* what the
    pipeline left out on purpose, as often as it did. *inexact* counts elements made again by a
    pipeline that may not make the same ones.
    """

    made: int = 0
    remade: int = 0
    sent: int = 0
    given_back: int = 0
    skipped: int = 0
    inexact: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a worker is with an attempt.

    *taken* is joined over all readers. *state* is the newest engine state that lies behind
    everything taken. *made* is the number of the next element to be made. *doubted* is how
    many numbers were free again because their reader was given up; one may be so several times.
    """

    attempt: int
    made: int
    taken: Taken
    state: EngineState | None = None
    done: bool = False
    failure: Failure | None = None
    work: Work = Work()
    doubted: int = 0
    lacking: str = ""
    """Why there is no room for its runner now. An attempt that ended so may run elsewhere."""


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker is there, and says what it runs and what it started once and no longer runs."""

    worker: WorkerId
    incarnation: int
    as_of: int
    progress: Mapping[TaskId, Progress] = field(default_factory=dict)
    ended: frozenset[tuple[TaskId, int]] = frozenset()
    draining: bool = False
    versions: Versions | None = None
    stats: bytes = b""
    """The worker's `Stats` as JSON, for status calls; may be empty."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """An attempt needs what stands at *position* of its log of *stream*."""

    worker: WorkerId
    incarnation: int
    task: TaskId
    attempt: int
    stream: int
    position: int


@dataclass(frozen=True, slots=True)
class Run:
    """The order to run an attempt of a task: where to start, and what readers have.

    *index* is the task's number within its iteration: seeds depend on it. *logs* has one split
    log a stream; it is empty where each task reads everything (OFF).
    """

    task: TaskId
    index: int
    attempt: int
    iteration: IterationId
    dataset: DatasetId
    seed: int
    codec: Codec
    state: EngineState = AT_START
    logs: tuple[SplitLog, ...] = ()
    taken: Taken = NOTHING
    held: Mapping[ReaderId, Runs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a worker should be doing now, and all readers' standing.

    A task that is not listed stops. *beat_interval* is in seconds. With *drain* the worker is to
    leave in order: it asks for no more splits, serves what is ready, and hands its tasks back.
    """

    as_of: int
    incarnation: int
    runs: tuple[Run, ...]
    readers: Mapping[ReaderId, Standing]
    beat_interval: float
    drain: bool = False


@dataclass(frozen=True, slots=True)
class SplitGrant:
    """What the log of *stream* holds from *position* on."""

    task: TaskId
    attempt: int
    stream: int
    position: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class WorkerRefused:
    """The dispatcher will not have this worker; it should stop with this error."""

    failure: Failure


WorkerSignal = WorkerBeat | SplitRequest
WorkerOrder = Assignment | SplitGrant | WorkerRefused


# --- reader and dispatcher, one long stream ---


@dataclass(frozen=True, slots=True)
class Holding:
    """A reader's word on one task: it takes no frame of attempts below *fence*."""

    fence: int
    taken: Taken
    buffered: Runs = NO_RUNS


@dataclass(frozen=True, slots=True)
class Cut:
    """A reader hands out nothing until a verdict on save *number* of its iteration comes.

    *label* is the save's name; the others get *timeout* seconds to come to the same cut. With
    *without_missing* the job is saved without those that do not, and what they may have taken is
    doubted.
    """

    number: int
    label: str
    timeout: float
    without_missing: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of save *number*, the same for all: the job's *state* as JSON, or a *failure*.

    *missing* names the readers that the state goes without.
    """

    number: int
    label: str
    state: bytes = b""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()


def called(label: str) -> str:
    """Return the call by which a save of this *label* was asked for."""
    return f"save_job({label!r})" if label else "state()"


@dataclass(frozen=True, slots=True)
class ReaderProcess:
    """Where a training loop runs. *rank* is that of its launcher (``RANK``), if one gave it any.

    *penstock* and *python* are its versions.
    """

    host: str
    pid: int
    rank: int | None = None
    penstock: str = ""
    python: str = ""

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"host {self.host}, pid {self.pid}{rank}"


@dataclass(frozen=True, slots=True)
class Unreached:
    """A worker in this life of it does not answer a reader, and has not for *seconds*."""

    incarnation: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReaderBeat:
    """A reader is there, and says what it has. Without an id it asks to be let in.

    *handed* is how many elements its training loop got, under whatever id. *unreached* are the
    workers that it tried to read from, in vain; those that it has left stay there for a while.
    """

    iteration: IterationId
    token: str
    reader: ReaderId | None
    beat: int
    holdings: Mapping[TaskId, Holding] = field(default_factory=dict)
    cut: Cut | None = None
    leaving: bool = False
    handed: int = 0
    process: ReaderProcess | None = None
    unreached: Mapping[WorkerId, Unreached] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskView:
    """Where a task can be read. Without a worker its attempt is over: give your word on it.

    *incarnation* is the life of the worker that runs it.
    """

    attempt: int
    worker: WorkerId | None
    failure: Failure | None = None
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """All that a reader should know. *beat* is the one answered, if one is.

    *waiting_for* says, in words, what keeps the iteration from going on, if anything does;
    *on_readers* whether among that are silent readers, which are given up when their lease is over.
    *verdicts* are the newest ones; the next save has the number *saves*. *held_by* says, in words,
    what silent readers keep from the others.
    """

    as_of: int
    token: str
    reader: ReaderId
    standing: Standing
    beat: int | None
    tasks: Mapping[TaskId, TaskView]
    finished: bool = False
    verdicts: tuple[Verdict, ...] = ()
    saves: int = 0
    waiting_for: str = ""
    on_readers: bool = False
    held_by: str = ""


# --- reader and worker: one stream a (reader, task) ---


@dataclass(frozen=True, slots=True)
class Open:
    """A reader wants a task's frames, and says what it has: the rest may go to others.

    *credit* is how many payload bytes may be under way before the reader gives more.
    """

    reader: ReaderId
    task: TaskId
    attempt: int
    opening: int
    taken: Taken
    buffered: Runs
    credit: int


@dataclass(frozen=True, slots=True)
class Ack:
    """What the training loop took since the last one, and how many bytes are free again.

    An empty one says that the loop waits, while operators behind its reader hold all that came:
    they may need more, or the end of their input (`Recall.last`).
    """

    taken: Runs
    credit: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The header of a run of *count* consecutive elements from number *first* on.

    *part* are the numbers of it that are this reader's; all below *floor* are taken by somebody.
    *layout* says how the payload is laid out (`penstock.wire.frame`), *stored* how it is
    compressed; the payload itself follows it on the wire.
    """

    task: TaskId
    attempt: int
    opening: int
    first: int
    count: int
    floor: int
    part: Runs
    layout: bytes
    stored: Codec = Codec.NONE
    raw_nbytes: int = 0
    """Length of the payload when decompressed."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Please give back what your loop does not ask for: another reader waits.

    The *last* is for readers whose loops wait: they hold all that is left of the task, so their
    operators shall make do with what they have.
    """

    task: TaskId
    attempt: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last message of a stream: nothing more will come of this attempt here.

    With a *failure* the task failed behind the elements sent before.
    """

    task: TaskId
    attempt: int
    failure: Failure | None = None


ReadRequest = Open | Ack
ReadReply = Frame | Recall | StreamEnd

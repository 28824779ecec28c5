"""What has been decided: the dispatcher's history is a list of these.

Each fact is a plain value that could be written to disk. Replaying all of them into empty books
gives equal books.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.messages import Codec, Failure, Mode
from penstock.numbers import (
    DatasetId,
    EngineState,
    IterationId,
    ReaderId,
    Runs,
    Split,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)
from penstock.sharding import Stream


@dataclass(frozen=True, slots=True)
class JobParameters:
    """What all who read one job must agree on."""

    dataset: DatasetId
    mode: Mode
    codec: Codec
    num_consumers: int | None
    shared_cache: bool
    target_workers: str
    ordered: bool
    remainder: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A history began. Dates and ids count from *birth* on, so that no two histories share any."""

    birth: int


@dataclass(frozen=True, slots=True)
class DatasetRegistered:
    """A pipeline is known. *unsplittable* says why it has no streams, if it cannot be split."""

    dataset: DatasetId
    streams: tuple[Stream, ...]
    unsplittable: str


@dataclass(frozen=True, slots=True)
class JobMade:
    """A job exists. A private one was made by a reader that gave no name."""

    job: str
    parameters: JobParameters
    seed: int
    private: bool


@dataclass(frozen=True, slots=True)
class IterationOpened:
    """A pass of a job exists. *names* are the files of each stream of files, by the stream."""

    iteration: IterationId
    job: str
    repetition: int
    seed: int
    names: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Finished:
    """All of an iteration was taken: the pass is over."""

    iteration: IterationId


@dataclass(frozen=True, slots=True)
class IterationForgotten:
    """Nobody reads an iteration any more: it takes no more room."""

    iteration: IterationId


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker registered."""

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker's lease ran out, or another life of it began: what it ran is over."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class TaskMade:
    """An iteration has one more task; *index* is its number there."""

    task: TaskId
    iteration: IterationId
    index: int


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A worker shall run a task; *held* is what readers have buffered of the attempt before."""

    task: TaskId
    attempt: int
    worker: WorkerId
    taken: Taken
    held: Mapping[ReaderId, Runs]


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """A worker no longer runs a task that is not done."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class Settled:
    """A task's worker has told what it knew of readers that were given up."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SplitsGranted:
    """These splits are at the end of a task's log of a stream. An empty one ends a pass."""

    task: TaskId
    stream: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class StateSaved:
    """A task can go on from here; the logs before it are forgotten."""

    task: TaskId
    state: EngineState


@dataclass(frozen=True, slots=True)
class TaskDone:
    """Everything that a task had was taken."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """User code failed; what was made before is still served."""

    task: TaskId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TaskLost:
    """A task went along with its worker."""

    task: TaskId
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class ReaderJoined:
    """A reader is in, and must be asked from now on."""

    iteration: IterationId
    reader: ReaderId
    token: str


@dataclass(frozen=True, slots=True)
class ReaderParted:
    """A reader left or was given up; *taken* is all that is known of what was taken."""

    iteration: IterationId
    reader: ReaderId
    standing: Standing
    taken: Mapping[TaskId, Taken]


JobFact: TypeAlias = (
    Begun | DatasetRegistered | JobMade | IterationOpened | Finished | IterationForgotten
)
PeerFact: TypeAlias = WorkerSeen | WorkerLost | ReaderJoined | ReaderParted
TaskFact: TypeAlias = (
    TaskMade
    | AttemptStarted
    | AttemptEnded
    | Settled
    | SplitsGranted
    | StateSaved
    | TaskDone
    | TaskFailed
    | TaskLost
)
Fact: TypeAlias = JobFact | PeerFact | TaskFact

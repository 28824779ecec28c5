"""Ids and enums that all processes use, and errors as they travel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Any, NewType, TypeAlias, TypeVar

from penstock.errors import PenstockError, by_name


class ShardingPolicy(IntEnum):
    """How the input of a distributed dataset is divided among workers.

    The last four are static: each entry of `DispatcherConfig.worker_addresses` has a fixed part.

    >>> from penstock.service import ShardingPolicy
    >>> dataset = Dataset.range(4).distribute(ShardingPolicy.DATA, "grpc://host:5050")
    >>> Dataset.range(4).distribute(ShardingPolicy.FILE, "grpc://host:5050")
    Traceback (most recent call last):
    penstock.errors.DatasetError: ShardingPolicy.FILE: range reads no files, ...
    """

    OFF = 0
    """Each worker that takes part yields the whole dataset; ``"parallel_epochs"`` says the same."""
    DYNAMIC = 1
    """Workers draw splits as they go: each element once; ``"distributed_epoch"`` says the same."""
    FILE = 2
    """Each worker reads files of its own: every n-th of the list of files."""
    DATA = 3
    """Each worker makes all elements, and keeps every n-th."""
    FILE_OR_DATA = 4
    """`FILE` where there are files, and enough of them for all workers; else `DATA`."""
    HINT = 5
    """The pipeline's own ``shard(SHARD_HINT, 0)`` says where."""


SHARD_HINT = -1
"""Stands in `Dataset.shard` for the number of workers, under `ShardingPolicy.HINT`."""


PROTOCOL = 3
"""The version of all messages. Added fields and messages keep it."""

Uint64: TypeAlias = Annotated[int, "uint64"]
"""A number from 0 to before 2**64; other numbers in messages are signed."""

Value: TypeAlias = str | int | None
"""One value of an error; in a message without one, it is None."""


class Mode(Enum):
    """How an iteration's data is divided over its tasks."""

    OFF = "off"
    """Each task is one whole copy."""
    DYNAMIC = "dynamic"
    """Tasks draw splits; every element once."""
    FILE = "file"
    """Each task reads files of its own."""
    DATA = "data"
    """Each task keeps elements of its own."""
    FILE_OR_DATA = "file_or_data"
    """As `FILE` if that can be, else as `DATA`."""
    HINT = "hint"
    """Each task keeps elements of its own where the pipeline says so."""

    @property
    def is_static(self) -> bool:
        """Whether each task has a fixed part, and a fixed place among the workers."""
        return self not in (Mode.OFF, Mode.DYNAMIC)


class Codec(Enum):
    """How frames are compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    AUTO = "auto"
    """The one of them that pays, as samples and the link say: never that of a frame."""
    SNAPPY = "snappy"
    """Of what TensorFlow's own clients get; frames have the one that pays."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A process's versions, which the first message of every connection carries."""

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
    fields: tuple[Value, ...]

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


S = TypeVar("S", bound=Any)
"""A sequence."""

WorkerId = NewType("WorkerId", str)
"""The address that a worker can be read at: a worker *is* its address."""

TaskId = NewType("TaskId", int)
ReaderId = NewType("ReaderId", int)
IterationId = NewType("IterationId", int)
DatasetId = NewType("DatasetId", str)


class ReaderStatus(Enum):
    """A reader as the dispatcher sees it."""

    LIVE = "live"
    LEFT = "left"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class SourceSlice:
    """Which of numbered things are left: from *start* to before *stop*, each *step*-th."""

    start: int = 0
    stop: int | None = None
    step: int = 1

    def of(self, things: S) -> S:
        """Return those of *things*, a sequence, that are left."""
        left: S = things[self.start : self.stop : self.step]
        return left


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An engine just before it makes element *number*.

    *positions* says, provider by provider, from where in the split log a restored engine reads:
    the log before that may be forgotten. *state* is the pipeline's own, as JSON text.
    """

    number: int = 0
    positions: tuple[int, ...] = ()
    state: str = "null"


AT_START = Checkpoint()

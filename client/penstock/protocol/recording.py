"""Messages about saves of datasets that a worker hosts: what is asked, ordered and reported.

A *recording* is such a save: a worker's process commits the versions of a saved dataset, while
other workers write its chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.protocol.types import Failure


class SaveStage(StrEnum):
    """How far a save has come."""

    OPEN = "open"
    """More elements may follow."""
    COMPLETE = "complete"
    FAILED = "failed"
    """It stopped at an error; the same call continues it."""
    CANCELLED = "cancelled"
    REMOVED = "removed"
    """`penstock saves gc` removed its elements; the pipeline that reads it makes them again."""


@dataclass(frozen=True, slots=True)
class RecordingProgress:
    """What the newest version of a saved dataset has."""

    version: int = 0
    elements: int = 0
    chunks: int = 0
    nbytes: int = 0
    """Of the files."""


NOTHING_WRITTEN = RecordingProgress()


@dataclass(frozen=True, slots=True)
class StartRecordingRequest:
    """Asks that a worker commits the saved dataset at *path*, which has the id *save_id*.

    *dataset_id* is registered for the pipeline that writes the chunks and gives their receipts.
    *total* is how many elements there will be; negative if that is not known.
    """

    save_id: str
    path: str
    dataset_id: str
    total: int = -1


@dataclass(frozen=True, slots=True)
class FindRecordingRequest:
    """Asks how far a recording has come."""

    save_id: str


@dataclass(frozen=True, slots=True)
class CancelRecordingRequest:
    """Asks that a recording stops. Its elements so far stay."""

    save_id: str


@dataclass(frozen=True, slots=True)
class RecordingReply:
    """How far a recording has come, and which worker hosts it; nothing if none does now."""

    save_id: str
    path: str
    stage: SaveStage
    worker: str
    progress: RecordingProgress
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class RecordingAssignment:
    """A recording that a worker should host. If it is *stopping*, it commits that, and ends."""

    save_id: str
    path: str
    dataset_id: str
    attempt: int
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """How far a worker's attempt of a recording has come, and how it ended.

    If the process *died*, that says why; another attempt continues after the last version.
    """

    save_id: str
    attempt: int
    stage: SaveStage
    progress: RecordingProgress = NOTHING_WRITTEN
    failure: Failure | None = None
    died: str = ""

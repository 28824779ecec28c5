"""Saves that workers host: facts, records, and how facts change records."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.protocol.recording import NOTHING_WRITTEN, RecordingProgress, SaveStage
from penstock.protocol.types import DatasetId, Failure, WorkerId

ENDED_KEPT = 100
"""The most recordings that ended of which the end is remembered, the newest."""


@dataclass(frozen=True, slots=True)
class RecordingStarted:
    """A worker shall host this save; or again, after it failed or was cancelled.

    *dataset* is the pipeline that is registered by *dataset_id*. *total* is how many elements there
    will be; negative if that is not known.
    """

    save_id: str
    path: str
    dataset: DatasetId
    dataset_id: str
    total: int


@dataclass(frozen=True, slots=True)
class RecordingPlaced:
    """A worker hosts *attempt* of a recording."""

    save_id: str
    worker: WorkerId
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordingCancelled:
    """A client asked that a recording stops; it ends when its host has committed that."""

    save_id: str


@dataclass(frozen=True, slots=True)
class RecordingEnded:
    """A recording is over: *stage* says how, *progress* is what the saved dataset has."""

    save_id: str
    stage: SaveStage
    progress: RecordingProgress
    failure: Failure | None = None


RecordingFact: TypeAlias = RecordingStarted | RecordingPlaced | RecordingCancelled | RecordingEnded


@dataclass(frozen=True, slots=True)
class RecordingRecord:
    """A save that a worker hosts, or hosted. *attempt* is the newest one; 0 is none."""

    path: str
    dataset: DatasetId
    dataset_id: str
    total: int
    attempt: int = 0
    worker: WorkerId | None = None
    stopping: bool = False
    stage: SaveStage = SaveStage.OPEN
    progress: RecordingProgress = NOTHING_WRITTEN
    """When it ended last."""
    failure: Failure | None = None

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.stage is SaveStage.OPEN


RATE_OVER = 10.0
"""Seconds over which a rate is taken."""


@dataclass(slots=True)
class HostReports:
    """What the hosts of a recording reported since this process began."""

    progress: RecordingProgress = NOTHING_WRITTEN
    deaths: int = 0
    """How often its process died since the newest version."""
    lately: deque[tuple[float, int]] = field(default_factory=deque)
    """The elements that there were, and when that was heard."""

    def hear(self, progress: RecordingProgress, now: float) -> None:
        """Note what a report says."""
        if progress.version > self.progress.version:
            self.progress, self.deaths = progress, 0
        self.lately.append((now, self.progress.elements))
        while self.lately[0][0] < now - RATE_OVER:
            self.lately.popleft()

    def rate(self, now: float) -> float:
        """Return how many elements a second became readable of late."""
        known = [(at, count) for at, count in self.lately if at >= now - RATE_OVER]
        if not known or now <= known[0][0]:
            return 0.0
        return (known[-1][1] - known[0][1]) / (now - known[0][0])


def apply(recordings: dict[str, RecordingRecord], fact: RecordingFact) -> None:
    """Let *fact* be true."""
    known = recordings.pop(fact.save_id, None)  # the last one changed last
    match fact:
        case RecordingStarted(_, path, dataset, dataset_id, total):
            new = RecordingRecord(path, dataset, dataset_id, total)
            if known is not None:  # it continues
                new = replace(new, attempt=known.attempt, progress=known.progress)
        case RecordingPlaced(_, worker, attempt) if known is not None:
            new = replace(known, worker=worker, attempt=attempt)
        case RecordingCancelled() if known is not None:
            new = replace(known, stopping=True)
        case RecordingEnded(_, stage, progress, failure) if known is not None:
            new = replace(known, stage=stage, progress=progress, failure=failure, worker=None)
        case _:
            raise AssertionError(f"{fact} is of no recording")
    recordings[fact.save_id] = new
    ended = [name for name, one in recordings.items() if not one.open]
    for name in ended[: max(0, len(ended) - ENDED_KEPT)]:
        del recordings[name]


def lose(recordings: dict[str, RecordingRecord], worker: WorkerId) -> None:
    """Note that *worker* hosts nothing any more."""
    for name, one in recordings.items():
        if one.worker == worker:
            recordings[name] = replace(one, worker=None)

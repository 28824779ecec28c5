"""What a worker and its recorders tell each other."""

from __future__ import annotations

import msgspec

from penstock.protocol.recording import RecordingProgress, SaveStage
from penstock.protocol.types import Failure


class RecorderOrder(msgspec.Struct, frozen=True):
    """What to commit, and where receipts come from: the dispatcher at *target*."""

    save_id: str
    path: str
    dataset_id: str
    target: str
    credentials: str
    """A folder; empty for none."""
    worker: str
    stopping: bool

    def to_bytes(self) -> bytes:
        """Return this as it travels to the fork server."""
        return msgspec.msgpack.encode(self)


class RecorderReport(msgspec.Struct, frozen=True):
    """From the recorder to its worker; the last one has another stage than open."""

    stage: SaveStage
    progress: RecordingProgress
    failure: Failure | None = None


class StopRecorder(msgspec.Struct, frozen=True):
    """From the worker to the recorder: commit that the save is cancelled, and end."""

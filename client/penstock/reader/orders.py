"""What the reader's mind wants done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.messages import Ack, Open
from penstock.numbers import TaskId, WorkerId


@dataclass(frozen=True, slots=True)
class SendBeat:
    """Beat at once: the dispatcher waits for what changed."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Read a task from *worker* by a new stream; an older one of the task is worth nothing now."""

    task: TaskId
    worker: WorkerId
    open: Open


@dataclass(frozen=True, slots=True)
class CloseStream:
    """Nothing of this task's stream is wanted any more."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SendAck:
    """Say on the task's stream what was taken, and give credit."""

    task: TaskId
    ack: Ack


@dataclass(frozen=True, slots=True)
class Tell:
    """Log a line: somebody should look at it."""

    line: str


@dataclass(frozen=True, slots=True)
class AskWorker:
    """Ask *worker* whether it is there: its streams are silent. `Reach.silent` if it is not."""

    worker: WorkerId


Order: TypeAlias = SendBeat | OpenStream | CloseStream | SendAck | Tell | AskWorker

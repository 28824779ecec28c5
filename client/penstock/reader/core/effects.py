"""The actions that a reader's core requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.nearness import UNKNOWN_WORKER, KnownWorker, WorkerProfile
from penstock.protocol.types import TaskId, WorkerId


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat at once: the dispatcher waits for what changed."""


@dataclass(frozen=True, slots=True)
class OpenTaskStream:
    """Read a task from *worker* by a new subscription; older ones of the task are ignored."""

    task: TaskId
    worker: WorkerId
    request: Subscribe
    incarnation: int = 0
    profile: WorkerProfile = UNKNOWN_WORKER

    @property
    def known(self) -> KnownWorker:
        """The worker, as views told of it."""
        return KnownWorker(self.worker, self.incarnation, self.profile)


@dataclass(frozen=True, slots=True)
class CloseTaskStream:
    """Nothing of this task's stream is wanted any more."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SendAck:
    """Send acks and credit on the task's stream."""

    task: TaskId
    ack: Ack


@dataclass(frozen=True, slots=True)
class TellLog:
    """Log *line* as a warning."""

    line: str


@dataclass(frozen=True, slots=True)
class AskWorker:
    """Ask *worker*, whose streams are silent, to answer; else `Reachability.silent` is called."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Ask the core again when its next tick is due: it is earlier than was said."""


ReaderEffect: TypeAlias = (
    SendHeartbeat | OpenTaskStream | CloseTaskStream | SendAck | TellLog | AskWorker | LookAgain
)

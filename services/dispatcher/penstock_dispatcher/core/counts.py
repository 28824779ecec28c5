"""What a dispatcher counts since its process began."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.types import ReaderStatus
from penstock_dispatcher.core.facts import AttemptStarted, Fact, ReaderRemoved


@dataclass(slots=True)
class Counts:
    """What came in and was decided since the process began."""

    facts: int = 0
    opened: int = 0
    worker_heartbeats: int = 0
    reader_heartbeats: int = 0
    split_requests: int = 0
    splits: int = 0
    workers_lost: int = 0
    """Workers that were removed and did not drain, also those that ran nothing."""
    readers_expired: int = 0
    """Readers that were silent for their lease."""
    tasks_moved: int = 0
    """Attempts of tasks that had one before: the task started again, most often elsewhere."""

    def note(self, fact: Fact) -> None:
        """Count *fact*."""
        self.facts += 1
        match fact:
            case ReaderRemoved(status=ReaderStatus.EXPIRED):
                self.readers_expired += 1
            case AttemptStarted(attempt=attempt) if attempt > 1:
                self.tasks_moved += 1
            case _:
                pass

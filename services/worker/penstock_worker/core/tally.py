"""What a worker has counted since it began."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counters; they only grow. *doubted* and *given_back* are numbers of elements."""

    frames_made: int = 0
    elements_made: int = 0
    bytes_made: int = 0
    frames_sent: int = 0
    elements_sent: int = 0
    bytes_sent: int = 0
    elements_taken: int = 0
    given_back: int = 0
    doubted: int = 0
    recalls: int = 0
    runs_started: int = 0
    runners_lost: int = 0

    def made(self, elements: int, nbytes: int) -> None:
        """Count a made frame."""
        self.frames_made += 1
        self.elements_made += elements
        self.bytes_made += nbytes

    def sent(self, elements: int, nbytes: int) -> None:
        """Count a sent frame."""
        self.frames_sent += 1
        self.elements_sent += elements
        self.bytes_sent += nbytes

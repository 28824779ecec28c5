"""Decides whether a failed request for a part of a file is tried again, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

RETRIES = 24
"""How many requests for one part may be repeated, all its ranges together."""

PATIENCE = 120.0
"""Seconds after the first failure of a range for which it is tried again."""

INFO_PATIENCE = 15.0
"""The same for a question about a file."""

_FIRST, _MOST = 0.1, 10.0


class ReadTrouble(Enum):
    """Why a request failed."""

    SLOW_DOWN = auto()
    """The store asked for fewer requests."""
    BROKEN = auto()
    """The store failed, could not be reached, or sent fewer bytes than it said."""
    MISSING = auto()
    CHANGED = auto()
    """The file is another version than the one that was listed."""
    DENIED = auto()
    UNRANGED = auto()
    """The server does not send ranges of the file."""
    REFUSED = auto()
    """Any other answer that would be the same the next time."""


@dataclass
class RetryBudget:
    """How often requests for one part may be repeated."""

    left: int = RETRIES
    patience: float = PATIENCE
    listed: bool = True
    """Whether a listing named the file: then it may appear late."""
    _failures: dict[int, tuple[int, float]] = field(default_factory=dict)
    """For each range by its start: how often it failed, and when it failed first."""

    def wait(self, start: int, trouble: ReadTrouble, now: float, chance: float) -> float | None:
        """Return after how many seconds to try again; None if the failure is final.

        Args:
            start: where the range begins.
            trouble: why it failed.
            now: a clock, in seconds.
            chance: a random number from 0 to 1. It spreads the requests of many processes.
        """
        again = {ReadTrouble.SLOW_DOWN, ReadTrouble.BROKEN} | (
            {ReadTrouble.MISSING} if self.listed else set()
        )
        count, since = self._failures.get(start, (0, now))
        if trouble not in again or not self.left:
            return None
        wait = min(_FIRST * 2.0**count, _MOST) * (0.5 + chance / 2)
        if now + wait - since > self.patience:
            return None
        self._failures[start] = count + 1, since
        self.left -= 1
        return wait

    def succeeded(self, start: int) -> None:
        """Note that the range that begins at *start* was read."""
        self._failures.pop(start, None)

"""Decides whether a failed request for a part of a file is tried again, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

RETRIES = 24
"""How many requests for one part may be repeated, all its ranges together."""

PATIENCE = 120.0
"""Seconds after the first failure of a range for which it is tried again."""

DEADLINE = 600.0
"""Seconds that failed requests for one part and the pauses after them may take, all its ranges
together. A part whose requests fail one after another would otherwise take hours to fail."""

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


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A failure is final; *why* says which bound it reached, if it is one that might pass."""

    why: str = ""


@dataclass
class RetryBudget:
    """How often, and for how long, requests for one part may be repeated."""

    left: int = RETRIES
    patience: float = PATIENCE
    deadline: float = DEADLINE
    listed: bool = True
    """Whether a listing named the file: then it may appear late."""
    _failures: dict[int, tuple[int, float]] = field(default_factory=dict)
    """For each range by its start: how often it failed, and when it failed first."""
    _lost: float = 0.0
    """Seconds that failed requests and the pauses after them took."""

    def wait(
        self, start: int, trouble: ReadTrouble, now: float, chance: float, spent: float = 0.0
    ) -> float | GivenUp:
        """Return after how many seconds to try again, or that the failure is final.

        Args:
            start: where the range begins.
            trouble: why it failed.
            now: a clock, in seconds.
            chance: a random number from 0 to 1. It spreads the requests of many processes.
            spent: how many seconds the failed request took.
        """
        again = {ReadTrouble.SLOW_DOWN, ReadTrouble.BROKEN} | (
            {ReadTrouble.MISSING} if self.listed else set()
        )
        count, since = self._failures.get(start, (0, now))
        self._lost += spent
        if trouble not in again:
            return GivenUp()
        wait = min(_FIRST * 2.0**count, _MOST) * (0.5 + chance / 2)
        if why := self._exhausted(now + wait - since, self._lost + wait):
            return GivenUp(why)
        self._failures[start] = count + 1, since
        self._lost += wait
        self.left -= 1
        return wait

    def _exhausted(self, tried: float, lost: float) -> str:
        """Return which bound another try would cross; empty if none."""
        if not self.left:
            return "all retries of this part are used"
        if tried > self.patience:
            return f"this range has failed for {self.patience:g} s"
        if lost > self.deadline:
            return f"failed requests of this part have taken {self.deadline:g} s"
        return ""

    def succeeded(self, start: int) -> None:
        """Note that the range that begins at *start* was read."""
        self._failures.pop(start, None)

"""How many threads an operator should have: one more is tried while its consumer waits.

Rule 1. There is at least one thread, and never more than the budget allows.
Rule 2. If the consumer hardly waits, nothing changes.
Rule 3. A thread that did not make elements come faster is removed. The next trial comes after a
        pause that doubles, so that functions that hold the interpreter's lock are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

HARDLY = 0.1
"""The part of the time that a reader may wait without anything being done about it."""

GAIN = 1.05
"""How much faster elements must come for a thread to stay."""

LONGEST_PAUSE = 256
"""Periods between two trials at the most."""


class ThreadChange(Enum):
    """The decision about the number of threads."""

    MORE = 1
    STAY = 0
    FEWER = -1


@dataclass(frozen=True, slots=True)
class Period:
    """A measurement: the elements of a period, its seconds, and the seconds of waiting in it."""

    elements: int
    seconds: float
    waited: float

    @property
    def rate(self) -> float:
        """Elements a second."""
        return self.elements / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class ThreadTuner:
    """Decides after each period. The caller does as it says, at once."""

    _before: float | None = None
    """The rate before the thread that is on trial came."""
    _pause: int = 0
    """Periods until the next trial."""
    _next_pause: int = 1

    def step(self, period: Period, *, room: bool) -> ThreadChange:
        """Return the decision after *period*; *room* says whether there may be another thread."""
        before, self._before = self._before, None
        if before is not None:
            if period.rate < before * GAIN:
                self._pause = self._next_pause
                self._next_pause = min(2 * self._next_pause, LONGEST_PAUSE)
                return ThreadChange.FEWER
            self._next_pause = 1
        if self._pause:
            self._pause -= 1
            return ThreadChange.STAY
        if not room or period.waited < HARDLY * period.seconds:
            return ThreadChange.STAY
        self._before = period.rate
        return ThreadChange.MORE

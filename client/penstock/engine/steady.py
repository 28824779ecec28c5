"""How many times as fast a loop could read: a number for advice, which does not flicker."""

from __future__ import annotations

from penstock.protocol.loop_time import LoopTime

OFF_BY = 4 / 3
"""The number does not change while the measurement is within this factor of it."""

MOST_WAIT = 0.98
"""A loop that waits longer says little of how fast it could be."""

LEAST_STEPS = 10
"""The number is unknown until the loop has had this number of elements."""

UNKNOWN = -1.0
"""The number before it is known."""

YOUNG = 2.0
"""No number is kept in the first seconds of a loop, because workers have just begun."""


class Steady:
    """A loop that waits for the share w of its time could take 1 / (1 - w) times as much."""

    def __init__(self) -> None:
        self._held = 0.0

    def of(self, measured: LoopTime) -> float:
        """Return the number for a loop that waited like that of late, or `UNKNOWN`."""
        if measured.steps < LEAST_STEPS:
            return self._held or UNKNOWN
        wanted = 1 / (1 - min(MOST_WAIT, measured.share))
        if measured.seconds < YOUNG:
            return self._held or wanted
        if not self._held / OFF_BY <= wanted <= self._held * OFF_BY:
            self._held = wanted
        return self._held

"""The clock of leases, which also runs while the machine sleeps and never jumps; and durations."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial
from typing import Final

now = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Return seconds since some moment in the past."""


BOUNDS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Seconds: from what a decision takes to what a disk that is going to fail takes."""


@dataclass(slots=True)
class Durations:
    """Counts durations by their length: how many were no longer than each of `BOUNDS`.

    For one thread.

    >>> found = Durations()
    >>> found.observe(0.002)
    >>> found.count, found.cumulative()[1:3]
    (1, [0, 1])
    """

    sum: float = 0.0
    """The sum of all durations in seconds."""
    _counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def observe(self, seconds: float) -> None:
        """Count one duration of *seconds*."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return for each of `BOUNDS` how many took no longer, and last how many there were."""
        out, below = [], 0
        for count in self._counts:
            below += count
            out.append(below)
        return out

"""Waits counted in buckets that are 2 % apart: any number of them in a few kilobytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SHORTEST = 1e-7
"""Seconds; everything shorter counts as this."""

STEP = math.log(1.02)
BUCKETS = 1164
"""Up to about a thousand seconds."""


@dataclass(slots=True)
class Histogram:
    """How often each wait came; *longest* and *total* are exact, in seconds."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    total: float = 0.0
    longest: float = 0.0

    def __len__(self) -> int:
        return int(self.counts.sum())

    def add(self, seconds: float) -> None:
        """Count one wait."""
        bucket = int(math.log(max(seconds, SHORTEST) / SHORTEST) / STEP)
        self.counts[min(bucket, BUCKETS - 1)] += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    def merge(self, other: Histogram) -> None:
        """Count everything that *other* counted, too."""
        self.counts += other.counts
        self.total += other.total
        self.longest = max(self.longest, other.longest)

    def quantile(self, share: float) -> float | None:
        """Return the seconds that a *share* of the waits did not exceed; within 2 %.

        None if there was no wait.
        """
        count = len(self)
        if not count:
            return None
        bucket = int(np.searchsorted(np.cumsum(self.counts), math.ceil(share * count)))
        return min(SHORTEST * math.exp((bucket + 1) * STEP), self.longest)

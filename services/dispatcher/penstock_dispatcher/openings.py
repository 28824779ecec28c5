"""How many registrations and openings are under way: more are refused, with when to try again.

What those that are there need, heartbeats and splits, waits behind each opening that was let in. So
a flood of openings is refused before anything is decoded or written for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import Overloaded

SOONEST, LATEST = 0.1, 30.0
"""Seconds after which to try again, at the least and at the most."""

_WEIGHT = 0.1
"""How much one opening says about how long one takes."""


class Openings:
    """At most *most* of them at a time, by *clock*."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._open = 0
        self._each, self._ended_at = 0.0, clock()
        self.refused = 0
        """How many were refused."""

    def __len__(self) -> int:
        return self._open

    @contextmanager
    def held(self) -> Iterator[None]:
        """Count one until the end of the block.

        Raises:
            Overloaded: when there are as many as there may be.
        """
        if self._open >= self._most:
            self.refused += 1
            after = min(max(self._open * self._each, SOONEST), LATEST)
            raise Overloaded(
                f"{self._open} datasets and jobs are being registered and opened here, which is "
                f"all that may be at once: try again in {after:.1f} s, as readers do by "
                "themselves; or start the dispatcher with a larger max_openings",
                round(1000 * after),
            )
        self._open += 1
        began = self._clock()
        try:
            yield
        finally:
            self._open -= 1
            now = self._clock()
            # Many end in the time that one takes: what counts is how long the next took behind it.
            took = now - max(began, self._ended_at)
            self._each += _WEIGHT * (took - self._each)
            self._ended_at = now

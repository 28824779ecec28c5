"""How much of its time a training loop waits for elements."""

from __future__ import annotations

import math
from collections import deque

from penstock.protocol.loop_time import LoopTime

SPAN, SAMPLES = 1.0, 10
"""What is newest is said of about so many spans of so many seconds."""

BUCKETS_A_DOUBLING = 4
"""How finely waits are told apart: by a fifth."""

LEAST = 1e-6

TOGETHER = 256
"""So many waits are sorted in at once: the loop itself waits for that."""


class LoopClock:
    """Measures one loop. The thread that reads calls `got`; any may ask for the sums."""

    __slots__ = (
        "_began",
        "_marks",
        "_newest",
        "_span_until",
        "_steps",
        "_until",
        "_waited",
        "_waits",
    )

    def __init__(self) -> None:
        self._began: float | None = None
        self._until = 0.0
        self._steps, self._waited = 0, 0.0
        self._waits: dict[int, int] = {}
        """How many waits were about so long, by the logarithm of that."""
        self._newest: list[float] = []
        """Waits that are not among these yet: together they are sorted in faster."""
        self._marks: deque[tuple[float, int, float]] = deque(maxlen=SAMPLES)
        """When a span began, with the steps and the wait up to then."""
        self._span_until = float("-inf")

    def got(self, asked: float, until: float, elements: int) -> None:
        """Record that it asked when none was ready for it, and had so many *until* then.

        It takes all but the first of them without a wait. Both are by `time.perf_counter`.
        """
        if asked >= self._span_until:
            self._mark(asked)
        wait = until - asked
        self._until = until
        self._waited += wait
        self._steps += elements
        self._newest.append(wait)
        if len(self._newest) >= TOGETHER:
            newest, self._newest = self._newest, []
            _sort_in(newest, self._waits)

    def _mark(self, now: float) -> None:
        """Begin a span."""
        if self._began is None:
            self._began = now
        self._marks.append((now, self._steps, self._waited))
        self._span_until = now + SPAN

    def total(self) -> LoopTime:
        """Return the sums of all steps."""
        if self._began is None:
            return LoopTime()
        seconds = self._until - self._began
        return LoopTime(self._steps, seconds, self._waited, self._wait(0.5), self._wait(0.99))

    def newest(self) -> LoopTime:
        """Return those of about the last ten seconds."""
        whole = self.total()
        if not self._marks:
            return whole
        at, steps, waited = self._marks[0]
        seconds = max(0.0, self._until - at)
        return LoopTime(
            whole.steps - steps, seconds, max(0.0, whole.waited - waited), whole.p50, whole.p99
        )

    def _wait(self, share: float) -> float:
        """Return how long that *share* of all steps waited at most."""
        waits, newest = dict(self._waits), self._newest  # the loop's thread may add to them
        _sort_in(list(newest), waits)
        at_once = self._steps - sum(waits.values())
        left = share * self._steps - at_once
        for at, count in sorted(waits.items()):
            if left <= 0:
                break
            left -= count
            longest = 2 ** (at / BUCKETS_A_DOUBLING)
            if left <= 0:
                return longest
        return 0.0


def _sort_in(newest: list[float], waits: dict[int, int]) -> None:
    """Add waits to the counts of those that were about as long."""
    for wait in newest:
        at = round(BUCKETS_A_DOUBLING * math.log2(max(wait, LEAST)))
        waits[at] = waits.get(at, 0) + 1

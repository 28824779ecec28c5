"""Computes how much operators add to their measures a second, from reports of ten seconds."""

from __future__ import annotations

from collections import deque

from penstock.protocol.measures import Measure, MeasureKey, merged

WINDOW = 10.0
"""Seconds that rates cover."""

STEP = 0.5
"""Reports that come within this many seconds are kept as one."""

REPORTS_EACH = 1.0
"""Seconds that the first report of a pass may stand for: workers report once a second."""


class MeasureRates:
    """The newest additions of the tasks of a pass, and their times."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._lately: deque[tuple[float, tuple[Measure, ...]]] = deque()

    def add(self, more: tuple[Measure, ...], now: float) -> None:
        """Record that *more* was counted since the last report."""
        lately = self._lately
        self._began = now if self._began is None else self._began
        if lately and now < lately[-1][0] + STEP:
            at, known = lately.pop()
            lately.append((at, merged(known, more)))
        else:
            lately.append((now, more))
        while lately[0][0] < now - WINDOW:
            lately.popleft()

    def at(self, now: float) -> dict[MeasureKey, float]:
        """Return how much was added a second, by measure."""
        sums: tuple[Measure, ...] = ()
        for at, more in self._lately:
            if at >= now - WINDOW:
                sums = merged(sums, more)
        began = now if self._began is None else self._began
        seconds = min(WINDOW, now - began + REPORTS_EACH)
        return {each.key: each.sum / seconds for each in sums}

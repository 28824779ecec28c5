"""Whether threads of this process wait for a core, as others use them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

TASKS = Path("/proc/self/task")

EVERY = 0.5
"""Seconds between two looks, at least: each opens a file for each thread."""


class CoreWait:
    """Compares processor time with the time for which threads were ready and had no core.

    Both are sums of the system, in nanoseconds by thread: ``/proc/self/task/*/schedstat``. Not for
    several threads at once.
    """

    def __init__(self, tasks: Path = TASKS, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._clock = tasks, clock
        self._looked = -EVERY
        self._before = 0.0, 0.0
        self._crowded = 1.0

    def crowded(self) -> float:
        """Return how many times as long computing takes for want of cores, of late: at least 1.

        It is 1 where the system does not say.
        """
        now = self._clock()
        if now - self._looked >= EVERY:
            self._looked = now
            (ran_before, waited_before), self._before = self._before, self._sums()
            ran, waited = self._before
            if (lately := ran - ran_before) > 0:
                self._crowded = 1.0 + max(0.0, waited - waited_before) / lately
        return self._crowded

    def _sums(self) -> tuple[float, float]:
        ran = waited = 0
        with suppress(OSError):  # no /proc
            for task in self._tasks.iterdir():
                with suppress(OSError, ValueError):  # a thread that has ended
                    on_core, ready, *_ = map(int, (task / "schedstat").read_text().split())
                    ran, waited = ran + on_core, waited + ready
        return ran / 1e9, waited / 1e9

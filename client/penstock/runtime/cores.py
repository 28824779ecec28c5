"""The cores that this process may use, and the time for which its threads wait for one.

`cores` reads the CPU affinity and the control groups. `CoreWait` reads the kernel's statistics.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")

MEMBERSHIP = Path("/proc/self/cgroup")


def cores(groups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return how many cores this process may use, at least one: affinity and limits counted.

    A part of a core that a control group allows counts as one.
    """
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    return max(1, min([count, *map(math.ceil, _limits(groups, membership))]))


def _limits(groups: Path, membership: Path) -> Iterator[float]:
    """Yield the limits of all control groups that this process is in, in cores."""
    lines = []
    with suppress(OSError, ValueError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            top = groups
        elif "cpu" in controllers.split(","):
            top = groups / "cpu"
        else:
            continue
        group = top / path.lstrip("/")
        for place in (group, *group.parents):
            with suppress(OSError, ValueError, ZeroDivisionError):
                yield from _quota(place)
            if place == top:
                break


def _quota(group: Path) -> Iterator[float]:
    """Yield the quota of one control group, if it has one, in either version of their files."""
    newer = group / "cpu.max"
    if newer.exists():
        quota, period = newer.read_text().split()
    else:
        quota = (group / "cpu.cfs_quota_us").read_text().strip()
        period = (group / "cpu.cfs_period_us").read_text().strip()
    if quota.isdecimal():
        yield int(quota) / int(period)


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

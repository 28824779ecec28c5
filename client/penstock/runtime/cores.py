"""How many cores this process may use, by its CPU affinity and its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
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

"""How much of the system's memory a worker's cross-trainer cache may be, and its buffers."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import resource

log = logging.getLogger("penstock.worker")

SHARE = 2
"""Of the memory one in so many bytes may be the cache: the rest is for pipelines."""

BUFFERS = 4
"""Of the memory one in so many bytes may be elements that readers have not acked."""

NO_LIMIT = 1 << 40
"""The bytes of memory where the system says nothing of it."""

ADDRESSES = 16
"""Of limited addresses one in so many may be those of one task's cache: each runner maps it, in the
worker's process and its own."""

CGROUPS = Path("/sys/fs/cgroup")

MEMBERSHIP = Path("/proc/self/cgroup")


def cache_size(wanted: int, *, by_default: bool) -> int:
    """Return how many bytes the cache of a job has, of *wanted*; log it if that is less.

    That is news for who set it, and not where it is so *by_default*.
    """
    limits = {f"half of {what}": nbytes // SHARE for what, nbytes in memory_limits().items()} | {
        f"a sixteenth of {what}": nbytes // ADDRESSES for what, nbytes in _address_limits().items()
    }
    what, least = min(limits.items(), key=lambda limit: limit[1], default=("", wanted))
    size = max(1, min(wanted, least))
    if size < wanted:
        level = logging.INFO if by_default else logging.WARNING
        text = "cross_trainer_cache_size_bytes is %d here, not %d: that is %s"
        log.log(level, text, size, wanted, what)
    return size


def buffer_size(workers: int = 1) -> int:
    """Return how many bytes the buffers of a worker have by default, of *workers* on this host."""
    return min(memory_limits().values(), default=NO_LIMIT) // (BUFFERS * max(1, workers))


def memory_limits(groups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> dict[str, int]:
    """Return the bytes of memory that this process may use, by what limits it."""
    limits = {}
    with suppress(OSError, ValueError, AttributeError):
        limits["physical memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [int(text) for text in _group_limits(groups, membership) if text.isdecimal()]
    if found:
        limits["the memory limit of its control group"] = min(found)
    return limits


def _group_limits(groups: Path, membership: Path) -> Iterator[str]:
    """Yield the limits of all control groups that this process is in, as the files have them."""
    lines = []
    with suppress(OSError, ValueError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            top, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        for place in (group, *group.parents):
            with suppress(OSError, ValueError):
                yield (place / name).read_text().strip()
            if place == top:
                break


def _address_limits() -> dict[str, int]:
    """Return how many bytes of addresses processes here have, if that is not beyond need."""
    limits = {}
    if sys.maxsize < 1 << 32:
        limits["the addresses of a 32-bit process"] = sys.maxsize
    for name in ("RLIMIT_AS", "RLIMIT_FSIZE"):
        soft, _ = resource.getrlimit(getattr(resource, name))
        if soft != resource.RLIM_INFINITY:
            limits[name] = soft
    return limits

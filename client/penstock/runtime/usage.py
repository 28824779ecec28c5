"""CPU and memory that this process and its children use, for status calls.

A process that a fork server forked is not a child of this process; `count_in` adds it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.runtime.cores import cores

BUSY_OVER = 1.0
"""Fewest seconds over which busy cores are measured: the system counts in steps of 10 ms."""

REST = 50
"""How many times the duration of a measurement to wait before the next one.

To measure a hundred processes takes tenths of a second, because the system scans all their pages.
The caller answers nobody during that time."""


_forked_for_this: set[int] = set()
"""Forked processes to count besides the children; one set for the whole process."""


def count_in(pid: int) -> None:
    """Count *pid* and its descendants as part of this process."""
    _forked_for_this.add(pid)


def count_out(pid: int) -> None:
    """Stop counting *pid*: it has ended, and another process may get its number. Idempotent."""
    _forked_for_this.discard(pid)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU and memory in use. *cpu* is in seconds since the start, *memory* in bytes.

    *cpu* includes children that have ended. Memory that several processes share counts once. A
    `UsageMeter` adds the number of *cores* and how many were recently *busy* (None at first).
    """

    cpu: float
    memory: int
    busy: float | None = None
    cores: int = 0


def usage() -> Usage:
    """Measure this process and its descendants. Without /proc, all counts are 0."""
    cpu, memory = 0.0, 0
    for pid in family(os.getpid(), *_forked_for_this):
        with suppress(OSError, IndexError, ValueError):  # the process may end during this
            cpu += _cpu(pid)
            memory += _memory(pid)
    return Usage(cpu, memory)


def resident() -> int:
    """Return the bytes of memory that this process alone has in RAM; 0 without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


class UsageMeter:
    """Measures usage, but rarely if that is slow: a result may be some time old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._newest: Usage | None = None
        self._next = 0.0
        self._cores = cores()
        self._since: tuple[float, float] | None = None
        """The start of the measurement of busy cores, and the value of *cpu* at that time."""
        self._busy: float | None = None

    def look(self) -> Usage:
        """Return the result of `usage`, or its last result if the next is not due."""
        began = self._clock()
        if self._newest is None or began >= self._next:
            found = usage()
            until = self._clock()
            self._count(until, found.cpu)
            self._newest = replace(found, busy=self._busy, cores=self._cores)
            self._next = until + REST * (until - began)
        return self._newest

    def _count(self, at: float, cpu: float) -> None:
        since = self._since
        if since is None:
            self._since = at, cpu
        elif at - since[0] >= BUSY_OVER:
            self._since = at, cpu
            self._busy = max(0.0, (cpu - since[1]) / (at - since[0]))


def family(*pids: int) -> list[int]:
    """Return *pids* and their descendants, each once."""
    found, queue = dict.fromkeys(pids), list(pids)
    while queue:
        for task in _tasks(queue.pop()):
            with suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    if child not in found:
                        found[child] = None
                        queue.append(child)
    return list(found)


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _cpu(pid: int) -> float:
    """Return the CPU seconds of *pid* and of its children that ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """Return the bytes of *pid*'s memory, with its proportional part of shared memory."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0

"""What this process and its children use of the machine: CPU and memory, for status calls.

A process that a fork server forked for this one is no child of it: `count_in` has it counted, too.
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
"""So many seconds at least are looked at for busy cores: the system counts in steps of 10 ms."""

REST = 50
"""So many times as long as a look took there is none: that of a hundred processes takes tenths of a
second, as the system goes through all their pages, and who looks answers nobody meanwhile."""


_forked_for_this: set[int] = set()
"""Beside its children. There is one for the process, as its children are."""


def count_in(pid: int) -> None:
    """Count *pid*, and what is below it, as this process's own."""
    _forked_for_this.add(pid)


def count_out(pid: int) -> None:
    """Count *pid* no more: it has ended, and its number may be another's. Idempotent."""
    _forked_for_this.discard(pid)


@dataclass(frozen=True, slots=True)
class Usage:
    """*cpu* is in seconds since the start, children that have ended included; *memory* in bytes.

    Memory that several processes share counts once. A `UsageMeter` adds how many of the *cores*
    that there are were *busy* of late; it does not know that at once.
    """

    cpu: float
    memory: int
    busy: float | None = None
    cores: int = 0


def usage() -> Usage:
    """Take stock of this process and all below it. Nothing is counted where there is no /proc."""
    cpu, memory = 0.0, 0
    for pid in family(os.getpid(), *_forked_for_this):
        with suppress(OSError, IndexError, ValueError):  # it may end meanwhile
            cpu += _cpu(pid)
            memory += _memory(pid)
    return Usage(cpu, memory)


class UsageMeter:
    """Takes stock, and spends little of the time with that: what it says may be a while old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._newest: Usage | None = None
        self._next = 0.0
        self._cores = cores()
        self._since: tuple[float, float] | None = None
        """From when on it is counted how many cores are busy, and the *cpu* of then."""
        self._busy: float | None = None

    def look(self) -> Usage:
        """Return what `usage` says, or said last."""
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
    """Return *pids* and the processes below them, each once."""
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
    """Return the seconds that *pid*, and those of its children that it waited for, computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """Return the bytes of *pid*; of what it shares with others, its part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0

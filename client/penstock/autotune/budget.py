"""The cores and the memory that all tuned operators of one run may use together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

RAM_BUDGET = 256 << 20
"""Bytes for tuned buffers, unless options say otherwise."""


class Budget:
    """*cores* threads that work and *ram* bytes of elements. For any thread.

    Each operator has its first thread, and its first elements, whatever the others have. *cores*
    may be what counts them: that is called when something asks, which most short passes never do.
    Calls that move to other processes may have as many of them, together, as *processes* says;
    without it, none.
    """

    def __init__(
        self,
        cores: int | Callable[[], int],
        ram: int,
        processes: ProcessShare | None = None,
    ) -> None:
        self.ram: int = ram
        self._count = cores
        self._lock = threading.RLock()  # a finaliser may `forget` in the middle of it
        self._taken = 1
        self._bytes: dict[int, float] = {}
        self.processes = processes

    @property
    def free_processes(self) -> int:
        """How many processes more there may be; below 0 there are too many."""
        share = self.processes
        return 0 if share is None else share.most - share.used

    def take_processes(self, count: int) -> None:
        """Take *count* processes; if it is below 0, give them back."""
        if self.processes is not None:
            with self._lock:
                self.processes.used += count

    @cached_property
    def cores(self) -> int:
        """How many threads may work; the same all the time."""
        return self._count if isinstance(self._count, int) else self._count()

    def take_thread(self) -> bool:
        """Take a thread more, if there is one."""
        with self._lock:
            if not self.has_thread():
                return False
            self._taken += 1
            return True

    def has_thread(self) -> bool:
        """Return whether there is a thread to take."""
        return self._taken < self.cores

    def give_threads(self, count: int) -> None:
        """Give *count* threads back."""
        with self._lock:
            self._taken -= count

    def note(self, who: object, nbytes: float) -> float:
        """Record that *who* may use *nbytes* now; return how many are left, below 0 if too many."""
        with self._lock:
            self._bytes[id(who)] = nbytes
            return self.ram - sum(self._bytes.values())

    def forget(self, who: object) -> None:
        """Record that *who* uses nothing any more."""
        with self._lock:
            self._bytes.pop(id(who), None)


@dataclass(slots=True)
class ProcessShare:
    """Calls may move to *most* processes, together; *used* are: a `Budget` counts them, locked."""

    most: int = 1
    used: int = 0

"""What all tuned operators of one run may use together: cores and memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

RAM_BUDGET = 256 << 20
"""Bytes for tuned buffers, unless options say otherwise."""


class Budget:
    """*cores* threads that work and *ram* bytes of elements. For any thread.

    Each operator has its first thread, and its first elements, whatever the others have. Calls that
    move to other processes may have as many of them, together, as *processes* says at the time.
    """

    def __init__(self, cores: int, ram: int, processes: Callable[[], int] | None = None) -> None:
        self.cores: int = cores
        self.ram: int = ram
        self._lock = threading.RLock()  # a finaliser may `forget` in the middle of it
        self._threads = cores - 1
        self._bytes: dict[int, float] = {}
        self.processes = processes
        self._used_processes = 0

    @property
    def free_processes(self) -> int:
        """How many processes more there may be; below 0 there are too many."""
        return (0 if self.processes is None else self.processes()) - self._used_processes

    def take_processes(self, count: int) -> None:
        """Take so many processes, or give them back if it is below 0."""
        with self._lock:
            self._used_processes += count

    def take_thread(self) -> bool:
        """Take a thread more, if there is one."""
        with self._lock:
            if self._threads <= 0:
                return False
            self._threads -= 1
            return True

    def has_thread(self) -> bool:
        """Return whether there is a thread to take."""
        return self._threads > 0

    def give_threads(self, count: int) -> None:
        """Give *count* threads back."""
        with self._lock:
            self._threads += count

    def note(self, who: object, nbytes: float) -> float:
        """Record that *who* may use *nbytes* now; return how many are left, below 0 if too many."""
        with self._lock:
            self._bytes[id(who)] = nbytes
            return self.ram - sum(self._bytes.values())

    def forget(self, who: object) -> None:
        """Record that *who* uses nothing any more."""
        with self._lock:
            self._bytes.pop(id(who), None)

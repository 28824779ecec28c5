"""Returns memory to the system after large messages, at most once in `TRIM_EVERY` seconds."""

from __future__ import annotations

import asyncio
from math import inf

from penstock.runtime import clock
from penstock.runtime.malloc import MMAP_THRESHOLD, trim

TRIM_EVERY = 5.0
"""Seconds between two trims, because returned pages cost as much as new ones on their next use."""


class TrimTimes:
    """Decides when to trim: after a large message, but at most once in `TRIM_EVERY` seconds."""

    def __init__(self) -> None:
        self._next = self._planned = -inf

    def after(self, now: float) -> float | None:
        """Return in how many seconds to trim; None if an earlier call has planned a trim."""
        if now >= self._next:
            self._next = now + TRIM_EVERY
            return 0.0
        if self._planned == self._next:
            return None
        self._planned = self._next
        return self._next - now

    def owed(self, now: float) -> bool:
        """Return whether a planned trim is still due, and cancel it."""
        owed, self._planned = self._planned == self._next > now, -inf
        return owed


class FreedMemory:
    """The free memory that large messages left in this process's allocator."""

    def __init__(self) -> None:
        self._times = TrimTimes()

    def received(self, nbytes: int) -> None:
        """Return memory to the system after a message of *nbytes*, if it was large.

        This trims now, or later in the running event loop.
        """
        if nbytes >= MMAP_THRESHOLD:
            self._trim_in_time()

    def _trim_in_time(self) -> None:
        delay = self._times.after(clock.now())
        if delay == 0:
            trim()
        elif delay is not None:
            asyncio.get_running_loop().call_later(delay, self._trim_in_time)

    def settle(self) -> None:
        """Do a planned trim at once."""
        if self._times.owed(clock.now()):
            trim()


freed_memory = FreedMemory()

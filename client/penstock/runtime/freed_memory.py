"""When a process gives back the memory that large messages left in its arena."""

from __future__ import annotations

import asyncio
from math import inf

from penstock.runtime import clock
from penstock.runtime.malloc import MMAP_THRESHOLD, trim

TRIM_EVERY = 5.0
"""Seconds: pages that are given back cost as much as new ones when they are needed again."""


class TrimTimes:
    """When to give memory back: after a large message, but once in `TRIM_EVERY` seconds at most."""

    def __init__(self) -> None:
        self._next = self._planned = -inf

    def after(self, now: float) -> float | None:
        """Return in how many seconds to give memory back; None if a call before said when."""
        if now >= self._next:
            self._next = now + TRIM_EVERY
            return 0.0
        if self._planned == self._next:
            return None
        self._planned = self._next
        return self._next - now

    def owed(self, now: float) -> bool:
        """Return whether memory is still to be given back; after that it is not."""
        owed, self._planned = self._planned == self._next > now, -inf
        return owed


class FreedMemory:
    """What large messages left in the arena of this process."""

    def __init__(self) -> None:
        self._times = TrimTimes()

    def received(self, nbytes: int) -> None:
        """Give back what a message of *nbytes* left, if it was a large one.

        That is now, or soon in the event loop that runs.
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
        """Give back at once what was to be given back soon."""
        if self._times.owed(clock.now()):
            trim()


freed_memory = FreedMemory()

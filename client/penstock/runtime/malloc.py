"""The memory allocator: keep what megabyte messages free, instead of giving it back each time.

glibc maps and unmaps every large block by default, and a fresh page costs microseconds on its
first touch: more than all else that happens to a message. With raised thresholds a process keeps
up to `TRIM_THRESHOLD` of free memory. It is kept by each arena, of which glibc gives threads one
each: a reader's process has one in all, or it would grow for thousands of messages until all of
them have that much.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from math import inf
from typing import cast

from penstock.runtime import clock

MMAP_THRESHOLD = 32 << 20
"""The most that glibc allows: bigger blocks are still mapped each time."""
TRIM_THRESHOLD = 256 << 20
TOP_PAD = 16 << 20

# From malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8


@functools.cache
def tune(*, one_arena: bool = False) -> bool:
    """Raise the thresholds of this process's allocator, once; return whether that was done.

    With *one_arena* threads that begin later share the arena of the main thread.

    It is not where the C library is not glibc, and not with ``PENSTOCK_MALLOC=default``.
    """
    if os.environ.get("PENSTOCK_MALLOC") == "default":
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # only glibc has it
        mallopt = libc.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings: tuple[tuple[int, int], ...] = (
        (_M_MMAP_THRESHOLD, MMAP_THRESHOLD),
        (_M_TRIM_THRESHOLD, TRIM_THRESHOLD),
        (_M_TOP_PAD, TOP_PAD),
    )
    if one_arena:
        settings += ((_M_ARENA_MAX, 1),)
    done = [mallopt(which, value) == 1 for which, value in settings]
    return all(done)


def trim() -> None:
    """Give all pages that hold nothing back to the system, if the C library can."""
    if (call := _malloc_trim()) is not None:
        call(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return cast("Callable[[int], int]", ctypes.CDLL(None).malloc_trim)  # glibc has it
    except (AttributeError, OSError, TypeError):
        return None


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
            import asyncio  # noqa: PLC0415  runners load this module without it

            asyncio.get_running_loop().call_later(delay, self._trim_in_time)

    def settle(self) -> None:
        """Do a planned trim at once."""
        if self._times.owed(clock.now()):
            trim()


freed_memory = FreedMemory()

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
    """Decides when to trim: after a large message, and once more `TRIM_EVERY` seconds later.

    The second trim returns what was in use at the first one, such as the memory in which the
    message was decompressed.
    """

    def __init__(self) -> None:
        self._next = -inf
        self._planned = False

    def after(self, now: float) -> tuple[bool, float | None]:
        """Return whether to trim now, and in how many seconds again.

        The second value is None if an earlier call has planned that trim.
        """
        at_once = now >= self._next
        if at_once:
            self._next = now + TRIM_EVERY
        if self._planned:
            return at_once, None
        self._planned = True
        return at_once, self._next - now

    def owed(self) -> bool:
        """Return whether a planned trim is still due, and cancel it."""
        owed, self._planned = self._planned, False
        return owed


class FreedMemory:
    """The free memory that large messages left in this process's allocator."""

    def __init__(self) -> None:
        self._times = TrimTimes()

    def received(self, nbytes: int) -> None:
        """Return memory to the system after a message of *nbytes*, if it was large.

        This trims now unless it did so recently, and once more later in the running event loop.
        """
        if nbytes < MMAP_THRESHOLD:
            return
        at_once, delay = self._times.after(clock.now())
        if at_once:
            trim()
        if delay is not None:
            import asyncio  # noqa: PLC0415  runners load this module without it

            asyncio.get_running_loop().call_later(delay, self.settle)

    def settle(self) -> None:
        """Do a planned trim at once."""
        if self._times.owed():
            trim()


freed_memory = FreedMemory()

"""Shared memory between a runner, which writes frames into it, and its worker, which reads them.

`Allocator` decides where a frame goes, and touches no memory. `SealedMemory` is the worker's side
of the memory, `Arena` the runner's side. A map is never closed, because views of it may still
exist; it goes away with the last view.
"""

from __future__ import annotations

import mmap
import os
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from penstock.ipc.shared_memory import memory_file

if sys.platform != "win32":
    import fcntl

ALIGNMENT = 64
"""Places begin on cache lines, so that leaves inside frames can, too."""


KEPT_ROOM = 2
"""Address space for frames that readers keep, as a multiple of the budget."""


# From linux/fcntl.h: a Python that was built on an old system has no names for them, and may yet
# run on a newer one.
_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW = 1033, 1, 2, 4


class Allocator:
    """Allocates places of any length in *size* bytes, each at the lowest address where it fits.

    Low addresses are reused, so their pages exist already. At most *budget* bytes are in use. A
    place larger than the budget is allocated too, one at a time.

    A *window* (see `set_window`) replaces the budget; a place larger than it must be the only one.

    A *kept* place is not in use and not free, because readers still use it.
    """

    def __init__(self, budget: int, size: int) -> None:
        self._budget = self._usual = self._most = budget
        self._elsewhere: int | None = None
        self._starts, self._stops = [0], [size]
        self._live: dict[int, int] = {}
        self._kept: set[int] = set()
        self._kept_nbytes = self._most_kept = 0
        self._giant: int | None = None
        self.in_use = 0
        """Bytes in use, a giant's not counted."""

    def set_budget(self, nbytes: int) -> None:
        """Set the budget without a window, from the next `set_window` on; 0 makes it as at first.

        It is never more than at first.
        """
        self._usual = min(nbytes or self._most, self._most)

    def set_window(self, window: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Set the budget and how much of it is in use elsewhere; None makes it as at first.

        Return the free bytes to give back, if the budget is smaller than before.
        """
        before = self._budget
        self._budget, self._elsewhere = (self._usual, None) if window is None else window
        if self._budget >= before:
            return []
        return self.gaps

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The free ranges, as start and end offsets."""
        return list(zip(self._starts, self._stops, strict=True))

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._live))

    def take(self, nbytes: int) -> int | None:
        """Return the offset of a place of *nbytes*, or None when others must be freed first."""
        needed = _rounded(nbytes)
        giant = needed > self._budget and self._elsewhere is None
        if not self._fits(needed, giant=giant):
            return None
        for i, (start, stop) in enumerate(zip(self._starts, self._stops, strict=True)):
            if stop - start >= needed:
                self._occupy(i, start, needed, giant=giant)
                return start
        return None

    def free(self, offset: int) -> tuple[int, int]:
        """Free the place at *offset*; return the free bytes around it that are beyond the budget.

        Raises:
            KeyError: when there is no place at *offset*.
        """
        nbytes = self._live.pop(offset)
        if offset in self._kept:
            self._kept.discard(offset)
            self._kept_nbytes -= nbytes
        elif offset == self._giant:
            self._giant = None
        else:
            self.in_use -= nbytes
        return self._open(offset, offset + nbytes)

    def keep(self, offset: int) -> None:
        """Count the place at *offset* no more: others may be taken, beside it. Idempotent.

        Raises:
            KeyError: when there is no place at *offset*.
        """
        nbytes = self._live[offset]
        if offset in self._kept:
            return
        if offset == self._giant:
            self._giant = None
        else:
            self.in_use -= nbytes
        self._kept.add(offset)
        self._kept_nbytes += nbytes
        self._most_kept = max(self._most_kept, self._kept_nbytes)

    def shorten(self, offset: int, nbytes: int) -> tuple[int, int]:
        """Keep the first *nbytes* of the place at *offset*; return the same as `free`."""
        needed, had = _rounded(nbytes), self._live[offset]
        if offset != self._giant:
            self.in_use -= had - needed
        self._live[offset] = needed
        return self._open(offset + needed, offset + had)

    def _fits(self, nbytes: int, *, giant: bool) -> bool:
        if giant:
            return self._giant is None
        in_use = self.in_use + (self._elsewhere or 0)
        alone = self._elsewhere is not None and in_use == 0
        return alone or in_use + nbytes <= self._budget

    def _occupy(self, i: int, start: int, nbytes: int, *, giant: bool) -> None:
        self._live[start] = nbytes
        if giant:
            self._giant = start
        else:
            self.in_use += nbytes
        self._starts[i] += nbytes
        if self._starts[i] == self._stops[i]:
            del self._starts[i], self._stops[i]

    def _open(self, start: int, stop: int) -> tuple[int, int]:
        if start == stop:
            return stop, stop
        low, high = self._join(start, stop)
        # Readers may keep places before others: their pages are used again, too.
        usual = self._budget + self._most_kept
        return (max(low, usual), high) if stop > usual else (high, high)

    def _join(self, start: int, stop: int) -> tuple[int, int]:
        i = bisect_left(self._starts, start)
        if i < len(self._starts) and self._starts[i] == stop:
            stop = self._stops[i]
            del self._starts[i], self._stops[i]
        if i and self._stops[i - 1] == start:
            start = self._starts[i - 1]
            self._stops[i - 1] = stop
        else:
            self._starts.insert(i, start)
            self._stops.insert(i, stop)
        return start, stop


def _rounded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def span(budget: int, largest: int) -> int:
    """Return how many bytes of addresses an arena needs: for its budget and the largest place.

    Addresses cost nothing: only written pages take memory. Frames that readers keep do not count
    toward the budget, and may lie anywhere.
    """
    kept = KEPT_ROOM * budget
    return sum(-(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE for nbytes in (budget, largest, kept))


class SealedMemory:
    """The memory of one runner as the worker has it, read only.

    *writable* is the file for the runner; `release` it as soon as the runner has it. *fd* is the
    file for readers: nothing but reading is possible through it.
    """

    def __init__(self, nbytes: int) -> None:
        self.writable, self.fd = memory_file("penstock-arena"), -1
        try:
            os.ftruncate(self.writable, nbytes)
            # With a length that stays no reader is ever killed by a page that is not there. The
            # seal against writing would forbid to free pages, too: hence the read-only file.
            fcntl.fcntl(self.writable, _ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
            self.fd = os.open(f"/proc/self/fd/{self.writable}", os.O_RDONLY | os.O_CLOEXEC)
            self.memory = memoryview(mmap.mmap(self.fd, nbytes, prot=mmap.PROT_READ))
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        """Let go of the writable file; idempotent."""
        if self.writable >= 0:
            os.close(self.writable)
            self.writable = -1

    def close(self) -> None:
        """Let go of the files; the memory goes with this object and views of it. Idempotent."""
        self.release()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class LeftMemory:
    """The memory of file *fd*, of a runner that is gone, for *frames*: places and their lengths.

    Its free pages go back to the system.
    """

    def __init__(self, fd: int, frames: Iterable[tuple[int, int]]) -> None:
        writable = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(writable, os.fstat(fd).st_size)
        finally:
            os.close(writable)
        self._frames = dict(sorted(frames))
        self._offsets = list(self._frames)
        at = 0
        for offset, nbytes in (*self._frames.items(), (len(self._map), 0)):
            _remove(self._map, at, offset)
            at = offset + nbytes

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def nbytes(self) -> int:
        """The bytes of the frames."""
        return sum(self._frames.values())

    def frame(self, offset: int) -> memoryview:
        """Return the frame at *offset*."""
        return memoryview(self._map)[offset : offset + self._frames[offset]]

    def free(self, offset: int) -> None:
        """Free the frame at *offset*, and its pages that no other frame uses."""
        stop, i = offset + self._frames.pop(offset), bisect_left(self._offsets, offset)
        del self._offsets[i]
        behind = self._offsets[i] if i < len(self._offsets) else len(self._map)
        before = self._offsets[i - 1] + self._frames[self._offsets[i - 1]] if i else 0
        page = mmap.PAGESIZE
        low, high = offset // page * page, -(-stop // page) * page
        _remove(self._map, max(before, low), min(behind, high))


class Arena:
    """The memory behind *fd* as the runner has it; see `Allocator` for *budget*."""

    def __init__(self, fd: int, budget: int, largest: int) -> None:
        nbytes = os.fstat(fd).st_size
        self._map = mmap.mmap(fd, nbytes)
        self._memory = memoryview(self._map)
        self._places = Allocator(budget, nbytes)
        self.largest = largest
        """The largest place that there is, in bytes."""

    def take(self, nbytes: int) -> int | None:
        """See `Allocator.take`."""
        return self._places.take(nbytes)

    def set_budget(self, nbytes: int) -> None:
        """See `Allocator.set_budget`."""
        self._places.set_budget(nbytes)

    def set_window(self, window: tuple[int, int] | None) -> None:
        """See `Allocator.set_window`."""
        for start, stop in self._places.set_window(window):
            self._give_back(start, stop)

    def room(self, offset: int, nbytes: int) -> memoryview:
        """Return the memory to write to in the place at *offset*."""
        return self._memory[offset : offset + nbytes]

    def free(self, offset: int) -> None:
        """Free the place at *offset*. Memory beyond the budget is returned to the system."""
        self._give_back(*self._places.free(offset))

    def shorten(self, offset: int, nbytes: int) -> None:
        """Keep the first *nbytes* of the place at *offset* only."""
        self._give_back(*self._places.shorten(offset, nbytes))

    def keep(self, offset: int) -> None:
        """See `Allocator.keep`."""
        self._places.keep(offset)

    def clear(self, kept: AbstractSet[int] = frozenset()) -> None:
        """Free all places except *kept*, which readers still use."""
        for offset in self._places:
            if offset in kept:
                self._places.keep(offset)
            else:
                self.free(offset)

    def release(self, kept: AbstractSet[int] = frozenset()) -> None:
        """As `clear`, and return all memory to the system that is free; writing allocates it."""
        self.clear(kept)
        for start, stop in self._places.gaps:
            self._give_back(start, stop)

    def _give_back(self, start: int, stop: int) -> None:
        _remove(self._map, start, stop)


def _remove(memory: mmap.mmap, start: int, stop: int) -> None:
    """Return the pages that lie within *start* and *stop* to the system."""
    start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = stop // mmap.PAGESIZE * mmap.PAGESIZE
    if start < stop:
        memory.madvise(mmap.MADV_REMOVE, start, stop - start)

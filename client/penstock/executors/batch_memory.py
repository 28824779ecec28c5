"""Memory for batches, which other processes write rows of: what `batch` hands out is that memory.

A *place* holds one batch. It is given a table of its rows (`PlacedRows`), and is free again when
that is gone, and every array that shows some of it. Nothing counts or locks: the arrays do.

```
 free ──place()──▶ rows are written ──hand_over()──▶ arrays of the user's ──the last dies──▶ free
```
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.element import Element
from penstock.engine.rows import BatchTable, Numbers
from penstock.frames.buffers import Bytes
from penstock.frames.row_layout import RowLayout
from penstock.ipc.shared_memory import MemoryFile

MOST_HELD = 8
"""How many batches users may hold before those that follow are copied: there is no end to those."""

WARM_PLACES, WARM_NBYTES = 4, 64 << 20
"""So many free places keep their memory, or so many bytes of them: what is written there next needs
no new pages."""


class BatchMemory:
    """*places* for batches of *layout*, whose elements are like *like*.

    For one thread at a time; arrays may die in any.

    Raises:
        OSError: when the system does not let us have that memory.
    """

    def __init__(self, layout: RowLayout, like: Element, places: int) -> None:
        self.layout, self._like = layout, like
        self.file = MemoryFile.make("penstock-batches")
        self.stride = -(-layout.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        """Bytes from one place to the next."""
        try:
            os.ftruncate(self.file.fd, self.stride * (places + MOST_HELD))
            self._memory = self.file.view(self.stride * (places + MOST_HELD))
        except BaseException:
            self.file.close()
            raise
        self._free = _FreePlaces(self._memory, self.stride, places + MOST_HELD)
        # Not sooner: who has rows may yet have to tell another process of the file.
        weakref.finalize(self, self.file.close).atexit = False

    @property
    def stale(self) -> bool:
        """Whether another is to be used instead: a fork may look at batches of this one."""
        return self._free.forked

    def place(self) -> PlacedRows | None:
        """Return the rows of a free place, if there is one."""
        index = self._free.take()
        if index is None:
            return None
        start = index * self.stride
        root = np.frombuffer(self._memory[start : start + self.layout.nbytes], np.uint8)
        # Not at the end of the process, when all memory goes back anyway.
        weakref.finalize(root, self._free.give_back, index).atexit = False
        return PlacedRows(self, index, root)

    def stacked(self, root: Bytes) -> Element:
        """Return the rows of the place that *root* is, as one element: views."""
        return self.layout.stacked(root, self._like)

    def hold(self, index: int) -> bool:
        """Note that users hold place *index* from now on; return False if they hold too many."""
        return self._free.hold(index)

    def close(self) -> None:
        """Return what is free to the system, and the rest as it becomes free. Idempotent."""
        self._free.close()


class PlacedRows(BatchTable):
    """The rows of a place of *memory*."""

    def __init__(self, memory: BatchMemory, index: int, root: Bytes) -> None:
        self.memory, self.index = memory, index
        self._whole = memory.stacked(root)
        super().__init__(self._whole)

    def hand_over(self, which: Numbers) -> Element:
        """See `Table.hand_over`."""
        whole = isinstance(which, range) and which == range(self.memory.layout.rows)
        if whole and self.memory.hold(self.index):
            return self._whole
        return self.stacked(which)


@dataclass(frozen=True, slots=True)
class Room:
    """Where so many elements go: rows of a place, from *row* on."""

    rows: PlacedRows
    row: int
    count: int


def cut(rooms: list[Room], start: int, stop: int) -> Iterator[Room]:
    """Give the rooms of elements *start* to *stop* of those that *rooms* are for."""
    for room in rooms:
        low, high = max(start, 0), min(stop, room.count)
        if low < high:
            yield Room(room.rows, room.row + low, high - low)
        start, stop = start - room.count, stop - room.count


class _FreePlaces:
    """The places that nothing refers to. Those used last come first: their pages are there.

    To give back is for any thread, in the middle of anything: it takes no lock.
    """

    def __init__(self, memory: memoryview, stride: int, places: int) -> None:
        self._memory, self._stride = memory, stride
        self._most_warm = max(WARM_PLACES, WARM_NBYTES // stride)
        self._warm: deque[int] = deque()
        self._cold = deque(reversed(range(places)))
        self._held: set[int] = set()
        self._closed = False
        self._forks = _forks.count

    @property
    def forked(self) -> bool:
        """Whether this process forked since: both sides see what is there, so it must stay."""
        return _forks.count != self._forks

    def take(self) -> int | None:
        for places in (self._warm, self._cold):
            try:
                return places.pop()
            except IndexError:
                continue
        return None

    def hold(self, index: int) -> bool:
        if self.forked or len(self._held) >= MOST_HELD:
            return False
        self._held.add(index)
        return True

    def give_back(self, index: int) -> None:
        if sys.is_finalizing() or self.forked:
            return
        self._held.discard(index)
        if self._closed or len(self._warm) >= self._most_warm:
            self._remove(index)
            self._cold.append(index)
        else:
            self._warm.append(index)

    def close(self) -> None:
        self._closed = True
        while self._warm:
            self._remove(self._warm.pop())

    def _remove(self, index: int) -> None:
        memory = self._memory.obj
        assert isinstance(memory, mmap.mmap)  # noqa: S101  for the type checker
        memory.madvise(mmap.MADV_REMOVE, index * self._stride, self._stride)


class _Forks:
    """How often this process forked."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1


_forks = _Forks()
if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(before=_forks.add)

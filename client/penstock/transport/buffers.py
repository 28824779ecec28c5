"""Buffers that frames from other hosts are received into, and that are used again and again.

A fresh page costs more on its first touch than all else that happens to its bytes. So a buffer
whose last view has died waits for the next frame of about its size. The views of a frame refer to
one root array; when it dies, a callback gives the buffer back. The callback takes no lock, and may
run in any thread, at any time.
"""

from __future__ import annotations

import itertools
import mmap
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1 << 16
"""The least size of a buffer, in bytes; each other size is twice another one."""

LARGEST = 1 << 25
"""Larger buffers are not used again: their memory goes back to the system at once."""

MOST_IDLE = 1 << 26
"""The most bytes of buffers that wait for their next use."""

_RUNNING = True
"""An ending interpreter sets the globals of modules to None, this one too."""


class FrameBuffers:
    """The buffers of one link. One thread takes buffers; any thread may trim or close."""

    def __init__(self) -> None:
        self._returned: deque[mmap.mmap] = deque()
        """Given back, and in no class yet: callbacks append here."""
        self._idle: dict[int, list[mmap.mmap]] = {}
        self._idle_nbytes = 0
        self._lent: dict[int, tuple[weakref.ref[Any], int]] = {}
        """The live root arrays, with the sizes of their buffers."""
        self._numbers = itertools.count()
        self._taken = self._seen = 0
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a root array of *nbytes*, whose contents may be anything.

        Raises:
            MemoryError: when the system has no memory for it.
        """
        size = max(LEAST, 1 << (nbytes - 1).bit_length()) if nbytes <= LARGEST else nbytes
        with self._lock:
            self._taken += 1
            self._sort_in()
            idle = self._idle.get(size)
            buffer = idle.pop() if idle else None
            if buffer is not None:
                self._idle_nbytes -= size
        if buffer is None:
            buffer = _fresh(size)
        root = np.frombuffer(buffer, np.uint8, nbytes)
        self._lend(root, buffer, size)
        return root

    @property
    def idle_nbytes(self) -> int:
        """The bytes of buffers that wait for their next use; any thread."""
        with self._lock:
            self._sort_in()
            return self._idle_nbytes

    @property
    def lent_nbytes(self) -> int:
        """The bytes of buffers that frames are received into, or that views use; any thread."""
        return sum(size for _, size in tuple(self._lent.values()))

    def trim(self) -> None:
        """Give idle buffers back to the system if none was taken since the last call."""
        with self._lock:
            self._sort_in()
            if self._seen == self._taken:
                self._idle.clear()
                self._idle_nbytes = 0
            self._seen = self._taken

    def close(self) -> None:
        """Use nothing again. Views that live keep their memory until they die."""
        self._lent.clear()  # with the references, their callbacks are gone
        with self._lock:
            self._returned.clear()
            self._idle.clear()
            self._idle_nbytes = 0

    def _lend(self, root: NDArray[np.uint8], buffer: mmap.mmap, size: int) -> None:
        number, lent, returned = next(self._numbers), self._lent, self._returned

        def over(_: object) -> None:
            if lent.pop(number, None) is not None and _RUNNING and size <= LARGEST:
                returned.append(buffer)

        lent[number] = weakref.ref(root, over), size

    def _sort_in(self) -> None:
        """Put returned buffers where `take` finds them, as far as there is room."""
        with suppress(IndexError):
            while True:
                buffer = self._returned.popleft()
                size = len(buffer)
                if self._idle_nbytes + size <= MOST_IDLE:
                    self._idle.setdefault(size, []).append(buffer)
                    self._idle_nbytes += size


def _fresh(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size)
    except OSError as exc:
        raise MemoryError(f"no {size} bytes for a frame: {exc}") from exc

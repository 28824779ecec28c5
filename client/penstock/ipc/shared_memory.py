"""Memory that two processes share: one writes, the other reads what a message names."""

from __future__ import annotations

import ctypes
import mmap
import os

LEAST = 1 << 20
"""The least size that a file gets, in bytes; pages that are never written take no memory."""


# From linux/memfd.h: a Python that was built on an old system has no names for them, and may yet
# run on a newer one.
_CLOEXEC, _ALLOW_SEALING = 1, 2


def memory_file(name: str) -> int:
    """Return a file of no bytes that is in memory alone.

    Raises:
        OSError: when the system does not let us.
    """
    flags = _CLOEXEC | _ALLOW_SEALING
    fd: int = ctypes.CDLL(None, use_errno=True).memfd_create(name.encode(), flags)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no memory file could be made")
    return fd


class MemoryFile:
    """The anonymous file *fd*, as large as it must be. Maps live as long as views of them."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def make(cls, name: str) -> MemoryFile:
        """Make a file of no bytes."""
        return cls(memory_file(name))

    def room(self, nbytes: int) -> memoryview:
        """Return the first *nbytes* to write to; earlier contents may be lost."""
        if self._map is None or nbytes > len(self._map):
            os.ftruncate(self.fd, max(LEAST, 1 << (nbytes - 1).bit_length()))
            self._map = mmap.mmap(self.fd, 0)
        return memoryview(self._map)[:nbytes]

    def view(self, nbytes: int) -> memoryview:
        """Return the first *nbytes*, which the other side wrote."""
        if self._map is None or nbytes > len(self._map):
            self._map = mmap.mmap(self.fd, 0)
        return memoryview(self._map)[:nbytes]

    def release(self) -> None:
        """Give all memory back to the system; it comes again when it is written to."""
        size = os.fstat(self.fd).st_size
        if size > LEAST:
            self.view(size)
        if self._map is not None:
            self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._map = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

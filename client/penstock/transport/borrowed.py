"""Views of frames in a worker's memory, which are given back when the last view has died.

Every view of a frame refers to one root array. When the array dies, a callback puts its loan into a
queue; the callback takes no lock and may run in any thread. The transport empties the queue when it
sends messages. After the transport has ended (`Borrowed.part`), the callback sends loans itself.
"""

from __future__ import annotations

import mmap
import os
import socket
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

from penstock.errors import VersionMismatch
from penstock.ipc.framing import pack
from penstock.transport.link_messages import GiveBack, LentFrame

_RUNNING = True
"""An ending interpreter sets the globals of modules to None, this one too. The end of the process
then gives back the views that are left."""

AT_ONCE = 256
"""The most loans that one message gives back."""


class _Socket:
    """The connection's socket while views live; the worker frees the memory when it closes."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.fd = -1
        self.returned: deque[int] = deque()
        self.loans: dict[int, weakref.ref[Any]] = {}
        """The loans; they are here because every view of the memory refers to this object."""

    def borrow(self, loan: int, root: object) -> None:
        """Give *loan* back when *root* dies."""

        def over(_: object) -> None:
            self.loans.pop(loan, None)
            self.give_back(loan)

        self.loans[loan] = weakref.ref(root, over)

    def give_back(self, loan: int) -> None:
        """Note that *loan* is over; any thread, at any time, without a lock."""
        self.returned.append(loan)
        if not _RUNNING:
            return
        if self.fd >= 0 and self.process == os.getpid():  # a forked process has views of its own
            with suppress(OSError, IndexError):
                data = pack(GiveBack((self.returned.popleft(),)))
                socket_send(self.fd, data)

    def __del__(self) -> None:
        if _RUNNING and self.fd >= 0:
            os.close(self.fd)


def socket_send(fd: int, data: bytearray) -> None:
    """Send *data* if there is room for it."""
    os.write(fd, data)


class _Map(mmap.mmap):
    """A worker's memory; any view of it keeps the connection open."""

    held: _Socket


class Borrowed:
    """The memory and frames of one worker that one reader has mapped and borrowed."""

    def __init__(self) -> None:
        self._held = _Socket()
        self._maps: dict[int, _Map] = {}

    def map(self, memory: int, file: int, nbytes: int) -> None:
        """Map *file* read-only.

        Raises:
            OSError: when the system refuses.
        """
        there = self._maps[memory] = _Map(file, nbytes, prot=mmap.PROT_READ)
        there.held = self._held

    def forget(self, memory: int) -> None:
        """Borrow no more frames in *memory*; it is unmapped with its last view."""
        self._maps.pop(memory, None)

    def __len__(self) -> int:
        return len(self._held.loans)

    def payload(self, frame: LentFrame) -> memoryview:
        """Return the payload of *frame*: a view of its memory, or a copy if *frame* asks for one.

        Raises:
            VersionMismatch: when the frame's memory is unknown.
        """
        there = self._maps.get(frame.memory)
        if there is None or not 0 <= frame.offset <= frame.offset + frame.nbytes <= len(there):
            raise VersionMismatch(
                f"a frame of {frame.nbytes} bytes at {frame.offset} of memory {frame.memory} does "
                "not lie in it: the worker is of a version that this one does not know"
            )
        if frame.out or not frame.nbytes:
            with memoryview(there) as whole, whole[frame.offset :][: frame.nbytes] as part:
                copy = memoryview(bytes(part))
            self._held.give_back(frame.loan)
            return copy
        root = np.frombuffer(there, np.uint8, frame.nbytes, frame.offset)
        self._held.borrow(frame.loan, root)
        return root.data

    def returned(self) -> tuple[int, ...]:
        """Remove and return some of the loans that have ended."""
        returned, taken = self._held.returned, list[int]()
        with suppress(IndexError):
            while len(taken) < AT_ONCE:
                taken.append(returned.popleft())
        return tuple(taken)

    def part(self, sock: socket.socket) -> None:
        """Give *sock* to the live views; the last of them closes it."""
        self._held.fd = sock.detach()
        self._maps.clear()
        while loans := self.returned():
            with suppress(OSError):
                socket_send(self._held.fd, pack(GiveBack(loans)))

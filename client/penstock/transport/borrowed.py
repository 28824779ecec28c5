"""Frames in a worker's memory: views of them, and giving them back when the last view has died.

Every view of a frame refers to one root array. When that dies its loan goes into a queue, by a
callback that takes no lock and may run in any thread; who sends messages empties it. When nobody
does any more (`Borrowed.part`) the callback itself sends what it can.
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
from penstock.transport.shm_messages import GiveBack, LentFrame

AT_ONCE = 256
"""Loans that one message gives back at most."""


class _Socket:
    """What is left of a connection while views live: the worker lets go of it as this does."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.fd = -1
        self.returned: deque[int] = deque()
        self.loans: dict[int, weakref.ref[Any]] = {}
        """Here, as whoever has a view of the memory refers to this."""

    def borrow(self, loan: int, root: object) -> None:
        """Give *loan* back when *root* dies."""

        def over(_: object) -> None:
            self.loans.pop(loan, None)
            self.give_back(loan)

        self.loans[loan] = weakref.ref(root, over)

    def give_back(self, loan: int) -> None:
        """Note that *loan* is over; any thread, at any time, without a lock."""
        self.returned.append(loan)
        if self.fd >= 0 and self.process == os.getpid():  # a forked process has views of its own
            with suppress(OSError, IndexError):
                data = pack(GiveBack((self.returned.popleft(),)))
                socket_send(self.fd, data)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


def socket_send(fd: int, data: bytearray) -> None:
    """Send *data* if there is room for it."""
    os.write(fd, data)


class _Map(mmap.mmap):
    """A worker's memory; while there is any view of it the connection is kept."""

    held: _Socket


class Borrowed:
    """What one reader has mapped and borrowed of one worker."""

    def __init__(self) -> None:
        self._held = _Socket()
        self._maps: dict[int, _Map] = {}

    def map(self, memory: int, file: int, nbytes: int) -> None:
        """Map *file*, to read only.

        Raises:
            OSError: when the system does not let us.
        """
        there = self._maps[memory] = _Map(file, nbytes, prot=mmap.PROT_READ)
        there.held = self._held

    def forget(self, memory: int) -> None:
        """Nothing more is borrowed of *memory*; it goes with the last view of it."""
        self._maps.pop(memory, None)

    def __len__(self) -> int:
        return len(self._held.loans)

    def payload(self, frame: LentFrame) -> memoryview:
        """Return the payload of *frame*: its memory, or a copy if that is wanted.

        Raises:
            VersionMismatch: when there is no such memory.
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
        """Take some of the loans that are over."""
        returned, taken = self._held.returned, list[int]()
        with suppress(IndexError):
            while len(taken) < AT_ONCE:
                taken.append(returned.popleft())
        return tuple(taken)

    def part(self, sock: socket.socket) -> None:
        """Leave *sock* to the views that are alive: it is closed with the last of them."""
        self._held.fd = sock.detach()
        self._maps.clear()
        while loans := self.returned():
            with suppress(OSError):
                socket_send(self._held.fd, pack(GiveBack(loans)))

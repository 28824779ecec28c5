"""Messages and files over a socket, for an event loop: what cannot be sent yet waits here."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Generic, TypeVar

import msgspec

from penstock.ipc.framing import READ_NBYTES, Unpacker, pack

M = TypeVar("M")

LARGEST = 1 << 31
"""Bytes of one message: an element that travels as bytes is the largest."""

FILES = 64
"""The most files that come with one read."""

PIECES = 256
"""The most pieces that the system is given at once; it takes up to 1024."""


@dataclass(slots=True)
class _Unsent:
    """Bytes to send, a file that goes with them, and what to call once they are sent."""

    data: memoryview
    file: int = -1
    sent: Callable[[], None] | None = None


class MessageLine(Generic[M]):
    """One end of a connected socket, on the loop that runs here.

    *on_message* gets each message, which has the type *said* and at most *most* bytes. *on_gone* is
    called once, when nothing more can come: the other side hung up or sent malformed data.
    Received files are in `files`, in order; each is there before the message that it came with.
    If the line does not take files, the system drops them.
    """

    def __init__(
        self,
        sock: socket.socket,
        said: type[M],
        on_message: Callable[[M], None],
        on_gone: Callable[[str], None],
        *,
        takes_files: bool = False,
        most: int = LARGEST,
    ) -> None:
        sock.setblocking(False)
        self.files: deque[int] = deque()
        self._sock, self._on_message, self._on_gone = sock, on_message, on_gone
        self._loop = asyncio.get_running_loop()
        self._unpacker: Unpacker[M] = Unpacker(msgspec.msgpack.Decoder(said), most)
        self._unsent: deque[_Unsent] = deque()
        self._drained = asyncio.Event()
        self._drained.set()
        self._open = True
        self._ancillary = socket.CMSG_SPACE(FILES * 4) if takes_files else 0
        self._loop.add_reader(sock.fileno(), self.read)

    def send(
        self,
        message: msgspec.Struct,
        file: int = -1,
        *,
        bodies: Sequence[memoryview] = (),
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Send *message*, and *file* with it, which may be closed then; never waits.

        The bytes of *bodies* follow the message. They must not change until *sent* is called, which
        is when the system has them all; it is not called if the line closes before.

        Raises:
            OSError: when there is no room for another file.
        """
        if not self._open:
            return
        waiting = bool(self._unsent)
        copy = os.dup(file) if file >= 0 else -1
        self._unsent.append(_Unsent(memoryview(pack(message)), copy))
        self._unsent.extend(map(_Unsent, bodies))
        self._unsent[-1].sent = sent
        if not waiting:
            self._write()

    @property
    def unsent(self) -> int:
        """How many messages wait until the other side reads."""
        return len(self._unsent)

    async def drained(self) -> None:
        """Return when all is sent, or nothing can be any more."""
        await self._drained.wait()

    def close(self) -> None:
        """Hang up; `on_gone` is not called. Idempotent."""
        if self._open:
            self.detach().close()

    def detach(self) -> socket.socket:
        """Return the socket, which nobody reads or writes here any more."""
        self._open = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        for file in (*self.files, *(one.file for one in self._unsent if one.file >= 0)):
            os.close(file)
        self.files.clear()
        self._unsent.clear()
        self._drained.set()
        # A loop that has ended may still refer to its callbacks.
        self._on_message = self._on_gone = _ignore
        return self._sock

    def _fail(self, why: str) -> None:
        if self._open:
            on_gone = self._on_gone
            self.close()
            on_gone(why)

    def _write(self) -> None:
        try:
            while self._unsent:
                self._note_sent(self._write_some())
        except BlockingIOError:
            self._drained.clear()
            self._loop.add_writer(self._sock.fileno(), self._write)
        except OSError as exc:
            # The sender is in the middle of something, so it hears of it later.
            self._unsent.clear()
            self._loop.call_soon(self._fail, str(exc))
        else:
            if not self._drained.is_set():
                self._drained.set()
                self._loop.remove_writer(self._sock.fileno())

    def _write_some(self) -> int:
        """Write what the system takes at once; return how many bytes that was."""
        first = self._unsent[0]
        if first.file < 0:
            same = takewhile(lambda one: one.file < 0, islice(self._unsent, PIECES))
            return self._sock.sendmsg([one.data for one in same])
        sent = socket.send_fds(self._sock, [first.data], [first.file])
        os.close(first.file)
        first.file = -1
        return sent

    def _note_sent(self, nbytes: int) -> None:
        """Remove the first *nbytes* of what is unsent."""
        while self._unsent and nbytes >= len(self._unsent[0].data):
            piece = self._unsent.popleft()
            nbytes -= len(piece.data)
            if piece.sent is not None:
                piece.sent()
        if nbytes:
            self._unsent[0].data = self._unsent[0].data[nbytes:]

    def read(self) -> bool:
        """Handle the messages that have arrived; return whether there may be more."""
        if not self._open:
            return False
        try:
            data, ancillary, _, _ = self._sock.recvmsg(
                READ_NBYTES, self._ancillary, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError as exc:
            self._fail(str(exc))
            return False
        for level, kind, packed in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(packed[: len(packed) - len(packed) % numbers.itemsize])
                self.files.extend(numbers)
        if not data:
            self._fail("it hung up")
            return False
        try:
            messages = self._unpacker.feed(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
            self._fail(f"it said what cannot be read: {exc}")
            return False
        for message in messages:
            if self._open:
                self._on_message(message)
        return True


def _ignore(_: object) -> None:
    """Do nothing with what nobody wants any more."""

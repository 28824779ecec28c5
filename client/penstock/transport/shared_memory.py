"""The transport to workers on this host: frames stay in the memory where their runner wrote them.

A working unix socket that passes files proves that a worker is on the same host.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from penstock.errors import PenstockError, Unavailable, VersionMismatch
from penstock.ipc.message_line import MessageLine
from penstock.protocol.nearness import KnownWorker
from penstock.runtime.linux import boot_id
from penstock.transport.borrowed import Borrowed
from penstock.transport.link import ReaderLink
from penstock.transport.link_messages import (
    Denied,
    FromWorker,
    GiveBack,
    Greeting,
    Hello,
    Lent,
    Mapped,
    Memory,
    MemoryGone,
    Said,
    Sent,
    StreamOver,
    Welcome,
)
from penstock.wire.worker import Replies, check_header, decode_replies

log = logging.getLogger("penstock.reader")

GIVE_BACK_EVERY, GIVE_BACK_AT_LEAST = 0.02, 0.32
"""Shortest and longest seconds between checks for memory to give back without other messages.

The time doubles after each check that finds nothing: an idle process may have hundreds of these."""


@asynccontextmanager
async def to_worker(worker: KnownWorker) -> AsyncIterator[SharedMemoryTransport]:
    """Lead to *worker*.

    Raises:
        Unavailable: when it is not on this host, or cannot be reached there; it says why.
    """
    profile, mine = worker.profile, boot_id()
    if not mine or profile.boot_id != mine:
        raise Unavailable(
            f"it is on another host: its boot id is {profile.boot_id or 'not known'}, and this "
            f"host's is {mine or 'not known'}"
        )
    transport = SharedMemoryTransport(worker, _connected(profile.shm_socket))
    try:
        transport.line.send(Hello(mine, profile.shm_token))
        await transport.welcomed()
        yield transport
    finally:
        transport.close()


def _connected(path: str) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as exc:
        raise Unavailable(f"there is no room for a socket: {exc}") from exc
    try:
        sock.setblocking(False)
        sock.connect(path)
    except OSError as exc:
        sock.close()
        raise Unavailable(
            f"its socket {path} cannot be reached from here ({exc}): in containers, let both "
            "sides share the folder that it is in"
        ) from exc
    return sock


class SharedMemoryTransport(ReaderLink):
    """A way to a worker on this host: one connection, for all tasks that are read there."""

    def __init__(self, worker: KnownWorker, sock: socket.socket) -> None:
        super().__init__(worker.address)
        self._borrowed = Borrowed()
        self.line = self._line = MessageLine[FromWorker](
            sock,
            FromWorker,  # type: ignore[arg-type]
            self._hear,
            self.on_gone,
            takes_files=True,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._pause = GIVE_BACK_EVERY
        self._give_back_later()

    def close(self) -> None:
        """Hang up, as soon as no view is left."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.gone:
            self.gone = "this side has closed"
            self._borrowed.part(self._line.detach())

    def before_request(self) -> None:
        """See `ReaderLink.before_request`."""
        self._give_back()

    def _hear(self, message: FromWorker) -> None:
        try:
            self._take_in(message)
        except PenstockError as exc:
            self._line.close()
            self.on_gone(str(exc))

    def _take_in(self, message: FromWorker) -> None:
        match message:
            case Welcome():
                self.on_welcome()
            case Denied(why):
                self._line.close()
                self.on_gone(why)
            case Greeting(stream) | StreamOver(stream):
                self.on_replies(stream, message)
            case Memory():
                self._line.send(Mapped(message.memory, self._map(message)))
            case MemoryGone(memory):
                self._borrowed.forget(memory)
            case Said(stream, body):
                self.on_replies(stream, decode_replies(body))
            case Lent():
                self._take_lent(message)
            case Sent():
                raise VersionMismatch("a worker on this host sends payloads, which it must lend")
            case _:
                assert_never(message)

    def _take_lent(self, message: Lent) -> None:
        replies: Replies = []
        for frame in message.frames:
            check_header(frame.header)
            replies.append((frame.header, self._borrowed.payload(frame)))
        self.on_replies(message.stream, replies)

    def _map(self, message: Memory) -> str:
        """Map a worker's memory; return why that cannot be done, or nothing."""
        files = self._line.files
        if not files or os.fstat(files[0]).st_ino != message.inode:
            why = "its file did not arrive: this process may open no more"
        else:
            file = files.popleft()
            try:
                self._borrowed.map(message.memory, file, message.nbytes)
            except OSError as exc:
                why = str(exc)
            else:
                return ""
            finally:
                os.close(file)
        line = "memory of worker %s cannot be shared, its frames are copied: %s"
        log.warning(line, self._address, why)
        return why

    # --- giving back ---

    def _give_back(self) -> bool:
        """Give back what no view is left of; return whether there was any."""
        any_loans = False
        while loans := self._borrowed.returned():
            any_loans = True
            self._line.send(GiveBack(loans))
        return any_loans

    def _give_back_later(self) -> None:
        self._pause = GIVE_BACK_EVERY if self._give_back() else 2 * self._pause
        pause = self._pause = min(self._pause, GIVE_BACK_AT_LEAST)
        self._timer = asyncio.get_running_loop().call_later(pause, self._give_back_later)

"""The transport to workers on other hosts: a TCP connection that carries frames as they are.

One thread for each connection receives payloads straight into buffers that are used again and
again. The event loop sends requests on the same connection, and gets what has arrived in batches.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import assert_never

import msgspec

from penstock.credentials.caller import Caller
from penstock.errors import PenstockError, Unavailable, VersionMismatch
from penstock.ipc.framing import pack
from penstock.ipc.tcp_socket import tune
from penstock.protocol.nearness import KnownWorker
from penstock.runtime.address import join, split
from penstock.transport.buffers import FrameBuffers
from penstock.transport.incoming import Arrived, Incoming
from penstock.transport.link import WELCOME_WITHIN, ReaderLink
from penstock.transport.link_messages import (
    Denied,
    Greeting,
    Hello,
    Lent,
    Memory,
    MemoryGone,
    Said,
    Sent,
    StreamOver,
    Welcome,
)
from penstock.wire.worker import decode_replies

AGAIN = 0.01
"""Seconds until the next try to send, after the system had no room for more."""

TRIM_EVERY = 5.0
"""Seconds after which buffers that are not used go back to the system."""

_NOW: int = getattr(socket, "MSG_DONTWAIT", 0)
_ALL: int = getattr(socket, "MSG_WAITALL", 0)


@asynccontextmanager
async def to_worker(worker: KnownWorker, caller: Caller) -> AsyncIterator[TcpTransport]:
    """Lead to *worker*, as *caller*.

    Raises:
        Unavailable: when it cannot be reached so; the error says why.
    """
    profile = worker.profile
    if not profile.data_port:
        raise Unavailable("it has no data_port")
    if caller.tls is not None:
        raise Unavailable("this reader has credentials for TLS, which this transport does not use")
    host, port = split(worker.address)
    hello = Hello(profile.boot_id, profile.data_token, caller.shown(host, port))
    transport = TcpTransport(worker, (host, profile.data_port), hello)
    try:
        await transport.welcomed()
        yield transport
    finally:
        transport.close()


class _Connection:
    """A TCP connection: one thread connects and receives, the event loop sends.

    *on_arrived* is called in the loop with messages, and *on_gone* once when nothing more comes.
    """

    def __init__(
        self,
        place: tuple[str, int],
        hello: Hello,
        incoming: Incoming,
        on_arrived: Callable[[list[Arrived]], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._place, self._hello, self._incoming = place, hello, incoming
        self._on_arrived, self._on_gone = on_arrived, on_gone
        self._loop = asyncio.get_running_loop()
        self._sock: socket.socket | None = None
        self._unsent: deque[memoryview] = deque()
        self._arrived: deque[Arrived] = deque()
        self._posted = False
        """Whether the loop will look at what has arrived."""
        self._open, self._receiving = True, True
        self._lock = threading.Lock()
        """Held to decide who closes the socket: the last one to use it."""
        threading.Thread(target=self._run, name="penstock-link", daemon=True).start()

    def send(self, message: msgspec.Struct) -> None:
        """See `LinkLine.send`."""
        if self._open and self._sock is not None:
            waiting = bool(self._unsent)
            self._unsent.append(memoryview(pack(message)))
            if not waiting:
                self._write(self._sock)

    def close(self) -> None:
        """Hang up; `on_gone` is not called. Idempotent."""
        with self._lock:
            self._open = False
            self._unsent.clear()
            # A loop that has ended may still refer to its callbacks.
            self._on_arrived = self._on_gone = _ignore
            if self._sock is not None:
                if self._receiving:
                    with suppress(OSError):  # the other side has hung up already
                        self._sock.shutdown(socket.SHUT_RDWR)  # it wakes the thread
                else:
                    self._sock.close()

    def _write(self, sock: socket.socket) -> None:
        try:
            while self._unsent:
                sent = sock.send(self._unsent[0], _NOW)
                left = self._unsent.popleft()[sent:]
                if left:
                    self._unsent.appendleft(left)
        except BlockingIOError:
            self._loop.call_later(AGAIN, self._write, sock)
        except OSError:
            self._unsent.clear()  # the thread says why

    # --- the thread ---

    def _run(self) -> None:
        why = "it hung up"
        try:
            sock = self._connected()
            if sock is not None:
                self._receive(sock)
        except Exception as exc:  # noqa: BLE001  # streams that wait must hear of any end
            why = str(exc) or repr(exc)
        with self._lock:
            self._receiving = False
            if not self._open and self._sock is not None:
                self._sock.close()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end, why)

    def _connected(self) -> socket.socket | None:
        """Connect and greet; return None if this side has closed meanwhile."""
        try:
            sock = socket.create_connection(self._place, WELCOME_WITHIN)
        except OSError as exc:
            raise Unavailable(
                f"its data_port {join(*self._place)} cannot be reached ({exc})"
            ) from exc
        with self._lock:
            if not self._open:
                sock.close()
                return None
            self._sock = sock
        tune(sock)
        sock.sendall(pack(self._hello))
        sock.settimeout(None)
        return sock

    def _receive(self, sock: socket.socket) -> None:
        incoming = self._incoming
        while nbytes := sock.recv_into(incoming.room, 0, _ALL if incoming.wanted else 0):
            self._pass_on(incoming.took(nbytes))

    def _pass_on(self, arrived: list[Arrived]) -> None:
        # A function of its own: no variable keeps a frame while the thread waits for the next one.
        self._arrived.extend(arrived)
        if arrived and not self._posted:
            self._posted = True
            self._loop.call_soon_threadsafe(self._hand_over)

    # --- in the loop ---

    def _hand_over(self) -> None:
        self._posted = False  # before it is looked what is there
        arrived: list[Arrived] = []
        with suppress(IndexError):
            while True:
                arrived.append(self._arrived.popleft())
        if self._open:
            self._on_arrived(arrived)

    def _end(self, why: str) -> None:
        on_gone = self._on_gone
        self.close()
        on_gone(why)


class TcpTransport(ReaderLink):
    """A way to a worker: one connection, for all tasks that are read there."""

    def __init__(self, worker: KnownWorker, place: tuple[str, int], hello: Hello) -> None:
        super().__init__(worker.address)
        self.buffers = FrameBuffers()
        incoming = Incoming(self.buffers.take)
        self.line = self._connection = _Connection(place, hello, incoming, self._hear, self.on_gone)
        self._trimming = asyncio.get_running_loop().call_later(TRIM_EVERY, self._trim)

    def close(self) -> None:
        """Hang up; views that live keep their memory."""
        self._trimming.cancel()
        self.gone = self.gone or "this side has closed"
        self._connection.close()
        self.buffers.close()

    def _hear(self, arrived: list[Arrived]) -> None:
        try:
            for one in arrived:
                self._take_in(one)
        except PenstockError as exc:
            self._connection.close()
            self.on_gone(str(exc))

    def _take_in(self, arrived: Arrived) -> None:
        match arrived.message:
            case Sent(stream, frames):
                headers = (frame.header for frame in frames)
                self.on_replies(stream, list(zip(headers, arrived.payloads, strict=True)))
            case Said(stream, body):
                self.on_replies(stream, decode_replies(body))
            case Greeting(stream) | StreamOver(stream):
                self.on_replies(stream, arrived.message)
            case Welcome():
                self.on_welcome()
            case Denied(why):
                self._connection.close()
                self.on_gone(why)
            case Memory() | MemoryGone() | Lent():
                raise VersionMismatch("a worker offers memory on a connection that cannot carry it")
            case _:
                assert_never(arrived.message)

    def _trim(self) -> None:
        self.buffers.trim()
        self._trimming = asyncio.get_running_loop().call_later(TRIM_EVERY, self._trim)


def _ignore(_: object) -> None:
    """Do nothing with what nobody wants any more."""

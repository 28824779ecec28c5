"""Limits HTTP connections: their number, and those that send nothing or do not receive answers.

This module accepts connections itself, so it knows each one from the start, even during TLS. If the
limit is reached, it closes an idle connection for each new one: the oldest of the address that
has the most idle connections. So a client that opens many loses its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import ssl
import struct
import termios
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from penstock.errors import InternalError

log = logging.getLogger("penstock.http")

FIRST_WITHIN = 10.0
"""Seconds that a new connection has for TLS and its first request together."""

TAKEN_WITHIN = 30.0
"""Seconds that a client has to receive an answer."""

BACKLOG, TOGETHER = 4096, 32
"""How many connections may wait for acceptance, and how many are accepted before other work runs.

If more wait, the system makes the next ones try again after a second."""

AGAIN = 1.0
"""Seconds until the next attempt to accept, if the process can open no more files."""

LOGGED_EVERY = 10.0
"""Seconds between two log lines about closed connections."""


@dataclass(eq=False, slots=True)
class _Visitor:
    """One connection, from its acceptance on."""

    address: str
    sock: socket.socket
    """The socket; once there is a transport, it belongs to that."""
    task: asyncio.Task[None] | None = None
    """Runs the handshake."""
    begun: bool = False
    """Whether a transport owns the socket and will close it, or is being made."""
    transport: asyncio.Transport | None = None
    look: asyncio.TimerHandle | None = None
    """The timer for the first request, or for the client to receive an answer."""
    answering: bool = False

    @property
    def gone(self) -> bool:
        """Whether the connection has ended or is closing."""
        shaking = self.task is not None and not self.task.done()
        return not shaking and (self.transport is None or self.transport.is_closing())

    @property
    def unsent(self) -> int:
        """How many sent bytes the client has not received yet, also if it is closing."""
        if self.sock.fileno() < 0:
            return 0
        # A TLS transport does not tell how much waits in the transport below it.
        (kept,) = struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))
        return int(kept)

    def close(self) -> None:
        """Close the connection now and drop unsent data."""
        if self.task is not None:
            self.task.cancel()
        if self.transport is not None:
            with suppress(OSError):  # it is closed, or the client has gone
                # Otherwise the system would try for minutes to send the data in its buffer.
                linger = struct.pack("ii", 1, 0)
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                # A TLS transport closed at both ends cannot be aborted; the shutdown ends it.
                self.sock.shutdown(socket.SHUT_RDWR)
            self.transport.abort()


class Door:
    """Accepts at most *most* connections; with *tls*, they use TLS."""

    def __init__(self, most: int, tls: ssl.SSLContext | None) -> None:
        self._most, self._tls = most, tls
        self._visitors: dict[_Visitor, None] = {}
        """The current connections, oldest first."""
        self._of: dict[asyncio.BaseTransport, _Visitor] = {}
        self._logged, self._closed = -LOGGED_EVERY, False
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._visitors)

    @asynccontextmanager
    async def open_at(
        self, socks: Iterable[socket.socket], reading: Callable[[], asyncio.Protocol] | None
    ) -> AsyncIterator[None]:
        """Accept connections at the listening sockets *socks* while the block runs.

        *reading* makes the protocol that reads each connection.
        """
        if reading is None:  # aiohttp has one after its setup
            raise InternalError("HTTP has nothing that reads it")
        known = list(socks)
        for sock in known:
            self._loop.add_reader(sock.fileno(), self._accept, sock, reading)
        try:
            yield
        finally:
            self._closed = True
            for sock in known:
                self._loop.remove_reader(sock.fileno())

    def hang_up(self) -> None:
        """Close all connections."""
        for visitor in tuple(self._visitors):
            self._end(visitor)

    async def heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer *request* with *handler*; then give its client time to receive the answer."""
        transport = request.transport
        visitor = None if transport is None else self._of.get(transport)
        if visitor is None:  # the connection has ended since
            return await handler(request)
        visitor.answering = True
        if visitor.look is not None:
            visitor.look.cancel()
        try:
            return await handler(request)
        finally:
            visitor.answering = False
            visitor.look = self._loop.call_later(TAKEN_WITHIN, self._look_taken, visitor)

    def _accept(self, sock: socket.socket, reading: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections that wait at *sock*, a few at a time, so that other work can run."""
        for _ in range(TOGETHER):
            try:
                came, address = sock.accept()
            except BlockingIOError:
                return
            except OSError as exc:
                log.warning("connections of HTTP must wait: %s", exc)
                self._loop.remove_reader(sock.fileno())
                self._loop.call_later(AGAIN, self._accept_again, sock, reading)
                return
            if len(self._visitors) < self._most or self._made_room():
                self._let_in(came, str(address[0]), reading)
            else:
                came.close()

    def _accept_again(self, sock: socket.socket, reading: Callable[[], asyncio.Protocol]) -> None:
        if not self._closed:
            self._loop.add_reader(sock.fileno(), self._accept, sock, reading)

    def _let_in(
        self, sock: socket.socket, address: str, reading: Callable[[], asyncio.Protocol]
    ) -> None:
        sock.setblocking(False)
        visitor = _Visitor(address, sock)
        self._visitors[visitor] = None
        visitor.look = self._loop.call_later(FIRST_WITHIN, self._end, visitor)
        visitor.task = asyncio.create_task(self._greet(visitor, reading), name="HTTP")

        def close_unmet(_: asyncio.Task[None]) -> None:  # runs also if cancelled before the start
            if not visitor.begun:
                sock.close()

        visitor.task.add_done_callback(close_unmet)

    async def _greet(self, visitor: _Visitor, reading: Callable[[], asyncio.Protocol]) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": self._tls,
                "ssl_handshake_timeout": FIRST_WITHIN,
                # Also bounds how long a client takes to receive the last answer.
                "ssl_shutdown_timeout": TAKEN_WITHIN,
            }
        visitor.begun = True
        try:
            transport, _ = await self._loop.connect_accepted_socket(reading, visitor.sock, **tls)
        except (OSError, asyncio.CancelledError):  # it does not use TLS, or took too long
            # A half-made transport may still wait for the client. The shutdown makes it close the
            # socket itself; otherwise it would read from the next socket with that number.
            with suppress(OSError):
                visitor.sock.shutdown(socket.SHUT_RDWR)
            self._forget(visitor)
            return
        visitor.transport = transport
        self._of[transport] = visitor

    def _made_room(self) -> bool:
        """Make room: end connections that are closing, or else close an idle one."""
        for visitor in [one for one in self._visitors if one.gone]:
            self._end(visitor)
        if len(self._visitors) < self._most:
            return True
        idle = [one for one in self._visitors if not one.answering]
        if not idle:
            return False
        (most, _), *_ = Counter(one.address for one in idle).most_common(1)
        oldest = next(one for one in idle if one.address == most)
        self._end(oldest)
        if self._loop.time() - self._logged >= LOGGED_EVERY:
            self._logged = self._loop.time()
            log.warning(
                "HTTP has %d connections: one from %s that asks for nothing is closed for each "
                "new one (max_http_connections)",
                self._most,
                most,
            )
        return True

    def _end(self, visitor: _Visitor) -> None:
        """Close *visitor* at once, even if it is already closing slowly; stop counting it."""
        visitor.close()
        self._forget(visitor)

    def _forget(self, visitor: _Visitor) -> None:
        self._visitors.pop(visitor, None)
        if visitor.look is not None:
            visitor.look.cancel()
        if visitor.transport is not None:
            self._of.pop(visitor.transport, None)

    def _look_taken(self, visitor: _Visitor) -> None:
        if visitor.unsent or visitor.gone:
            self._end(visitor)

"""Who comes in by HTTP: so many connections at once, none that says nothing, none that only asks.

It accepts connections itself, and so knows of each from its first moment, in the middle of TLS too.
Where there are as many as there may be, one that asks for nothing now makes room for a new one: of
the address that has the most such, the oldest. So who opens many closes its own.
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
"""Seconds that a new connection gets for TLS, and then for its first request."""

TAKEN_WITHIN = 30.0
"""Seconds that an answer may take to be received."""

BACKLOG, TOGETHER = 4096, 32
"""Connections that may wait to be accepted, and how many are accepted before others have a turn.
Where more wait than may, the system has the next ones try again after a second."""

AGAIN = 1.0
"""Seconds until the next try to accept, where no more files can be open."""

LOGGED_EVERY = 10.0
"""Seconds between two lines of the log about connections that were closed."""


@dataclass(eq=False, slots=True)
class _Visitor:
    """One connection, from when it was accepted."""

    address: str
    sock: socket.socket
    """Is its transport's, once it has one."""
    task: asyncio.Task[None] | None = None
    """Shakes hands, while that lasts."""
    begun: bool = False
    """Whether a transport has the socket, and is to close it, or is made now."""
    transport: asyncio.Transport | None = None
    look: asyncio.TimerHandle | None = None
    """Looks at it: whether it asked for anything yet, or received what it asked for."""
    answering: bool = False

    @property
    def gone(self) -> bool:
        """Whether it is over, or closing."""
        shaking = self.task is not None and not self.task.done()
        return not shaking and (self.transport is None or self.transport.is_closing())

    @property
    def unsent(self) -> int:
        """How many bytes the system keeps until it receives them: also of one that is closing."""
        if self.sock.fileno() < 0:
            return 0
        # A transport of TLS does not tell how much waits in the one below it.
        (kept,) = struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))
        return int(kept)

    def close(self) -> None:
        """End it now: what was to be sent to it is dropped."""
        if self.task is not None:
            self.task.cancel()
        if self.transport is not None:
            with suppress(OSError):  # it is closed, or the far side has gone
                # Else the system would try for minutes to send what it has taken.
                linger = struct.pack("ii", 1, 0)
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                # One of TLS that was closed at both ends cannot be aborted: it sees this.
                self.sock.shutdown(socket.SHUT_RDWR)
            self.transport.abort()


class Door:
    """Lets at most *most* connections in; with *tls* they speak that."""

    def __init__(self, most: int, tls: ssl.SSLContext | None) -> None:
        self._most, self._tls = most, tls
        self._visitors: dict[_Visitor, None] = {}
        """Those that are here, the oldest first."""
        self._of: dict[asyncio.BaseTransport, _Visitor] = {}
        self._logged, self._closed = -LOGGED_EVERY, False
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._visitors)

    @asynccontextmanager
    async def open_at(
        self, socks: Iterable[socket.socket], reading: Callable[[], asyncio.Protocol] | None
    ) -> AsyncIterator[None]:
        """Let in who comes to *socks*, which listen, while the block lasts.

        Each connection is read by a protocol that *reading* makes.
        """
        if reading is None:  # aiohttp has one from when it was set up
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
        """Answer *request* by *handler*: its connection has said something, and is to take that."""
        transport = request.transport
        visitor = None if transport is None else self._of.get(transport)
        if visitor is None:  # it is gone meanwhile
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
        """Let in those who wait at *sock*: some at a time, so that others are served in between."""
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

        def close_unmet(_: asyncio.Task[None]) -> None:  # also if it is cancelled before it begins
            if not visitor.begun:
                sock.close()

        visitor.task.add_done_callback(close_unmet)

    async def _greet(self, visitor: _Visitor, reading: Callable[[], asyncio.Protocol]) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": self._tls,
                "ssl_handshake_timeout": FIRST_WITHIN,
                # Ends what was not received by then of a last answer, too.
                "ssl_shutdown_timeout": TAKEN_WITHIN,
            }
        visitor.begun = True
        try:
            transport, _ = await self._loop.connect_accepted_socket(reading, visitor.sock, **tls)
        except (OSError, asyncio.CancelledError):  # it speaks no TLS, or took too long
            # What was made of a transport may still wait for the far side. It closes the socket, or
            # else it would go on listening to the next one of that number.
            with suppress(OSError):
                visitor.sock.shutdown(socket.SHUT_RDWR)
            self._forget(visitor)
            return
        visitor.transport = transport
        self._of[transport] = visitor

    def _made_room(self) -> bool:
        """End connections that are closing, or close one that asks for nothing now."""
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
        """Close *visitor*, also if it is closing by itself: that may last; and count it no more."""
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

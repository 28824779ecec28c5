"""Links that can be broken: TCP proxies between real processes, on one thread of their own."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self, TypeVar

T = TypeVar("T")

CALL_WITHIN = 10.0
CONNECT_WITHIN = 5.0
CHUNK = 1 << 16

_LINGER_NOT = struct.pack("ii", 1, 0)
"""SO_LINGER of zero: closing sends RST instead of FIN."""


class Flow(Enum):
    """What becomes of bytes in one direction."""

    PASS = "pass"
    DELAY = "delay"
    """They come late, each piece by another time up to `Link.jitter`, in order."""
    HOLD = "hold"
    """They wait, and come when the flow is another: a network that was away for a while."""
    DROP = "drop"
    """They are swallowed. A connection that lost some is reset when the flow is another."""


class Way(Enum):
    """A direction through a link."""

    UP = "up"
    """From who connects to who listens."""
    DOWN = "down"


BOTH = (Way.UP, Way.DOWN)


class Links:
    """The thread on which links run. Everything made by it ends with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._links: list[Link] = []
        self.writers: list[asyncio.StreamWriter] = []
        """Every socket of every link: one whose task is over is closed by who has it here."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.refuse()
        self.run(_end_all())
        self.run(_reset_all(self.writers))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_WITHIN)
        self._loop.close()

    def link(self, upstream: tuple[str, int], *, jitter: float = 0.05, seed: int = 0) -> Link:
        """Open a link to *upstream*; it listens on a free port of this machine."""
        link = Link(self, upstream, jitter, random.Random(seed))
        self.run(link.listen())
        self._links.append(link)
        return link

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the thread of links, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_WITHIN)


async def _end_all() -> None:
    while True:
        # Sockets are accepted and closed in turns after those that listened or aborted.
        await asyncio.sleep(0.01)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if not others:
            return
        for task in others:
            task.cancel()
        await asyncio.wait(others)


async def _reset_all(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        _reset(writer)
    await asyncio.sleep(0)  # sockets are closed in the turn after that


@dataclass(eq=False)
class _Connection:
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    robbed: bool = False
    """Whether bytes were swallowed, so that what follows them makes no sense any more."""

    ended: set[Way] = field(default_factory=set)

    def end(self, way: Way) -> None:
        """Send FIN; what would come behind it is swallowed."""
        sink = self.far if way is Way.UP else self.near
        with suppress(OSError, RuntimeError):  # the other end may have hung up
            self.ended.add(way)
            sink.write_eof()

    def reset(self) -> None:
        """End it with RST."""
        _reset(self.near)
        _reset(self.far)


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


class Link:
    """A proxy to one address. Its methods may be called from any thread and return when done."""

    def __init__(
        self, links: Links, upstream: tuple[str, int], jitter: float, chance: random.Random
    ) -> None:
        self.upstream, self.jitter = upstream, jitter
        self._links, self._chance = links, chance
        self._flows = dict.fromkeys(BOTH, Flow.PASS)
        self._changed = asyncio.Event()
        self._listener: socket.socket | None = None
        self._port = 0
        self._late = 0.0
        """Seconds by which connections are let through late, at most."""
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.passed = 0
        """Bytes that came through."""

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        return f"127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def set(self, flow: Flow, ways: tuple[Way, ...] = BOTH) -> None:
        """Let bytes *flow* so from now on, those on their way too."""
        self._links.run(self._set(flow, ways))

    def reset(self) -> None:
        """End all connections at once, with RST. New ones are welcome."""
        self._links.run(self._reset())

    def half_close(self, way: Way) -> None:
        """End one direction of all connections (FIN); the other one goes on."""
        self._links.run(self._half_close(way))

    def refuse(self) -> None:
        """Reset all connections, and take no more: nobody listens here."""
        self._links.run(self._refuse())

    def accept(self) -> None:
        """Listen again on the same port. Idempotent."""
        self._links.run(self.listen())

    def reorder(self, within: float) -> None:
        """End all connections, and let the next ones through after up to *within* seconds each.

        So those that are made together come in another order.
        """
        self._links.run(self._reorder(within))

    def heal(self) -> None:
        """Be a plain wire again."""
        self._late = 0.0
        self.accept()
        self.set(Flow.PASS)

    # --- on the thread of links; what serves there ends with it ---

    async def listen(self) -> None:
        """Take connections."""
        # Not `asyncio.start_server`: closed between the accepting of a connection and the turn in
        # which it makes a transport, it drops the socket unclosed (an assertion that it swallows).
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=100)
            self._listener.setblocking(False)
            self._port = self._listener.getsockname()[1]
            asyncio.get_running_loop().add_reader(self._listener, self._welcome, self._listener)

    async def _set(self, flow: Flow, ways: tuple[Way, ...]) -> None:
        self._flows |= dict.fromkeys(ways, flow)
        self._changed.set()
        self._changed = asyncio.Event()
        if Flow.DROP not in self._flows.values():
            for connection in [c for c in self._connections if c.robbed]:
                connection.reset()

    async def _reset(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    async def _reorder(self, within: float) -> None:
        self._late = within
        await self._reset()

    async def _half_close(self, way: Way) -> None:
        for connection in self._connections:
            connection.end(way)

    async def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        await self._reset()

    def _welcome(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # it went away again
            return
        sock.setblocking(False)
        serving = asyncio.ensure_future(self._serve(sock))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        # Not within the task: one that is cancelled before its first step runs nothing of itself.
        serving.add_done_callback(lambda _: sock.close())

    async def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, TimeoutError):
            near_in, near = await asyncio.open_connection(sock=sock)
            self._links.writers.append(near)
            try:
                if self._late:
                    await asyncio.sleep(self._chance.uniform(0.0, self._late))
                async with asyncio.timeout(CONNECT_WITHIN):
                    far_in, far = await asyncio.open_connection(*self.upstream)
                    self._links.writers.append(far)
                await self._carry(near_in, near, far_in, far)
            finally:
                _reset(near)

    async def _carry(
        self,
        near_in: asyncio.StreamReader,
        near: asyncio.StreamWriter,
        far_in: asyncio.StreamReader,
        far: asyncio.StreamWriter,
    ) -> None:
        connection = _Connection(near, far)
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(near_in, far, Way.UP, connection))
                both.create_task(self._pump(far_in, near, Way.DOWN, connection))
        except* OSError:
            pass
        finally:
            connection.reset()
            self._connections.discard(connection)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        way: Way,
        connection: _Connection,
    ) -> None:
        while data := await source.read(CHUNK):
            await self._while(way, Flow.HOLD)
            flow = self._flows[way]
            if way in connection.ended:
                continue
            if flow is Flow.DROP:
                connection.robbed = True
                continue
            if connection.robbed:
                raise ConnectionResetError
            if flow is Flow.DELAY:
                await asyncio.sleep(self._chance.random() * self.jitter)
            self.passed += len(data)
            sink.write(data)
            await sink.drain()
        # The end of the file travels like everything else.
        await self._while(way, Flow.HOLD, Flow.DROP)
        connection.end(way)

    async def _while(self, way: Way, *flows: Flow) -> None:
        while self._flows[way] in flows:
            await self._changed.wait()

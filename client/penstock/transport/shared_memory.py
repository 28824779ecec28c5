"""The transport to workers on this host: frames stay in the memory where their runner wrote them.

A working unix socket that passes files proves that a worker is on the same host.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import assert_never, cast

from penstock.errors import PenstockError, Unavailable
from penstock.ipc.message_line import MessageLine
from penstock.protocol.data import ReadRequest, StreamEnd, Subscribe
from penstock.protocol.nearness import KnownWorker
from penstock.protocol.types import Failure
from penstock.runtime.linux import boot_id
from penstock.transport.borrowed import Borrowed
from penstock.transport.shm_messages import (
    AckStream,
    Denied,
    EndStream,
    FromWorker,
    GiveBack,
    Greeting,
    Hello,
    Lent,
    Mapped,
    Memory,
    MemoryGone,
    OpenStream,
    Said,
    StreamOver,
    Welcome,
)
from penstock.wire.worker import Replies, check_header, decode_replies

log = logging.getLogger("penstock.reader")

WELCOME_WITHIN = 2.0
"""Seconds that a worker has to welcome a reader."""

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
        await transport.greet(mine, profile.shm_token)
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


class SharedMemoryTransport:
    """A way to a worker on this host: one connection, for all tasks that are read there."""

    def __init__(self, worker: KnownWorker, sock: socket.socket) -> None:
        self._address = worker.address
        self._borrowed = Borrowed()
        self._streams: dict[int, asyncio.Queue[Replies | Greeting | StreamOver]] = {}
        self._opened = 0
        self._gone = ""
        self._welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line: MessageLine[FromWorker] = MessageLine(
            sock,
            FromWorker,  # type: ignore[arg-type]
            self._hear,
            self._on_gone,
            takes_files=True,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._pause = GIVE_BACK_EVERY
        self._give_back_later()

    async def greet(self, boot_id: str, token: str) -> None:
        """Wait until the worker lets this reader in.

        Raises:
            Unavailable: when it does not.
        """
        self._line.send(Hello(boot_id, token))
        try:
            async with asyncio.timeout(WELCOME_WITHIN):
                await self._welcome
        except TimeoutError:
            raise Unavailable(f"it said nothing for {WELCOME_WITHIN:g} s") from None

    def close(self) -> None:
        """Hang up, as soon as no view is left."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._gone:
            self._gone = "this side has closed"
            self._borrowed.part(self._line.detach())

    async def read(
        self, requests: AsyncIterator[ReadRequest], greeted: Callable[[], None] | None = None
    ) -> AsyncGenerator[Replies, None]:
        """See `Transport.read`."""
        self._check()
        self._opened += 1
        stream, said = self._opened, asyncio.Queue[Replies | Greeting | StreamOver]()
        self._streams[stream] = said
        pump = asyncio.create_task(self._pump(stream, requests), name="requests")
        try:
            while (message := await _next(said, greeted)) is not None:
                over = isinstance(message[-1][0], StreamEnd)
                if over:
                    await asyncio.sleep(0)  # so that the worker hears of the acks before
                yield message
                if over:
                    return
                del message  # it holds a frame, which may be given back while this waits
        finally:
            del self._streams[stream]
            pump.cancel()
            await asyncio.wait({pump})
            self._give_back()
            self._line.send(EndStream(stream))

    async def answer(self, timeout: float) -> None:  # noqa: ARG002  # a socket tells at once
        """See `Transport.answer`."""
        self._check()

    @property
    def broken(self) -> bool:
        """See `Transport.broken`."""
        return bool(self._gone)

    def _check(self) -> None:
        if self._gone:
            raise Unavailable(f"worker {self._address} is gone: {self._gone}")

    async def _pump(self, stream: int, requests: AsyncIterator[ReadRequest]) -> None:
        async for request in requests:
            self._give_back()
            if isinstance(request, Subscribe):
                self._line.send(OpenStream(stream, request))
            else:
                self._line.send(AckStream(stream, request))

    # --- what the worker says ---

    def _hear(self, message: FromWorker) -> None:
        try:
            self._take_in(message)
        except PenstockError as exc:
            self._line.close()
            self._on_gone(str(exc))

    def _on_welcome(self) -> None:
        if not self._welcome.done():  # too late, nobody waits for it any more
            self._welcome.set_result(None)

    def _take_in(self, message: FromWorker) -> None:
        match message:
            case Welcome():
                self._on_welcome()
            case Denied(why):
                self._line.close()
                self._on_gone(why)
            case Greeting(stream) | StreamOver(stream):
                if stream in self._streams:
                    self._streams[stream].put_nowait(message)
            case Memory():
                self._line.send(Mapped(message.memory, self._map(message)))
            case MemoryGone(memory):
                self._borrowed.forget(memory)
            case Said(stream, body):
                if stream in self._streams:
                    self._streams[stream].put_nowait(decode_replies(body))
            case Lent():
                self._take_lent(message)
            case _:
                assert_never(message)

    def _take_lent(self, message: Lent) -> None:
        replies: Replies = []
        for frame in message.frames:
            check_header(frame.header)
            replies.append((frame.header, self._borrowed.payload(frame)))
        if message.stream in self._streams:
            self._streams[message.stream].put_nowait(replies)

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

    def _on_gone(self, why: str) -> None:
        self._gone = self._gone or why
        if not self._welcome.done():
            self._welcome.set_exception(Unavailable(f"worker {self._address}: {why}"))
        lost = Failure.of(Unavailable(f"worker {self._address} is gone: {why}"))
        for stream, said in self._streams.items():
            said.put_nowait(StreamOver(stream, lost))

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


async def _next(
    said: asyncio.Queue[Replies | Greeting | StreamOver], greeted: Callable[[], None] | None
) -> Replies | None:
    """Return the next replies of a stream, or None at its end; pass on the greeting.

    Raises:
        PenstockError: when it failed.
    """
    while True:
        match await said.get():
            case Greeting():
                if greeted is not None:
                    greeted()
            case StreamOver(_, None):
                return None
            case StreamOver(_, Failure() as failure):
                raise failure.error()
            case message:
                return cast("Replies", message)

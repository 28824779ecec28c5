"""A reader's side of a link to one worker: the streams on it, whatever brings their frames.

`shared_memory` and `tcp` are the two kinds. They differ in how messages arrive and where frames
lie; how streams open, are acknowledged, and end is the same for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Protocol, cast

import msgspec

from penstock.errors import Unavailable
from penstock.protocol.data import ReadRequest, StreamEnd, Subscribe
from penstock.protocol.types import Failure, WorkerId
from penstock.transport.link_messages import (
    AckStream,
    EndStream,
    Greeting,
    OpenStream,
    StreamOver,
)
from penstock.wire.worker import Replies

WELCOME_WITHIN = 2.0
"""Seconds that a worker has to welcome a reader."""


class LinkLine(Protocol):
    """The end of a link that sends messages; sending never waits."""

    def send(self, message: msgspec.Struct) -> None:
        """Send *message*; nothing if the link has ended."""
        ...


class ReaderLink:
    """The streams that one reader has open to the worker at *address*, and how they end.

    A kind of link sets `line`, and passes on what it hears.
    """

    line: LinkLine

    def __init__(self, address: WorkerId) -> None:
        self._address = address
        self._streams: dict[int, asyncio.Queue[Replies | Greeting | StreamOver]] = {}
        self._opened = 0
        self.gone = ""
        """Why the link has ended; empty while it has not."""
        self._welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def welcomed(self) -> None:
        """Wait until the worker lets this reader in.

        Raises:
            Unavailable: when it does not.
        """
        try:
            async with asyncio.timeout(WELCOME_WITHIN):
                await self._welcome
        except TimeoutError:
            raise Unavailable(f"it said nothing for {WELCOME_WITHIN:g} s") from None

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
            self.before_request()
            self.line.send(EndStream(stream))

    async def answer(self, timeout: float) -> None:  # noqa: ARG002  # a socket tells at once
        """See `Transport.answer`."""
        self._check()

    @property
    def broken(self) -> bool:
        """See `Transport.broken`."""
        return bool(self.gone)

    def before_request(self) -> None:
        """Send what must precede a request; a link that lends frames gives them back here."""

    def _check(self) -> None:
        if self.gone:
            raise Unavailable(f"worker {self._address} is gone: {self.gone}")

    async def _pump(self, stream: int, requests: AsyncIterator[ReadRequest]) -> None:
        async for request in requests:
            self.before_request()
            if isinstance(request, Subscribe):
                self.line.send(OpenStream(stream, request))
            else:
                self.line.send(AckStream(stream, request))

    # --- what the worker says ---

    def on_welcome(self) -> None:
        """Note that the worker lets this reader in."""
        if not self._welcome.done():  # too late, nobody waits for it any more
            self._welcome.set_result(None)

    def on_replies(self, stream: int, replies: Replies | Greeting | StreamOver) -> None:
        """Pass *replies* on to the reader of *stream*, if there is one."""
        if stream in self._streams:
            self._streams[stream].put_nowait(replies)

    def on_gone(self, why: str) -> None:
        """Note that the link has ended because of *why*."""
        self.gone = self.gone or why
        if not self._welcome.done():
            self._welcome.set_exception(Unavailable(f"worker {self._address}: {why}"))
        lost = Failure.of(Unavailable(f"worker {self._address} is gone: {why}"))
        for stream, said in self._streams.items():
            said.put_nowait(StreamOver(stream, lost))


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

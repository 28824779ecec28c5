"""A reader on a link: who it is, and its streams, whatever brings the frames to it.

`shm_reader` lends a runner's memory to readers on this host; `tcp_reader` sends the bytes of frames
over a network. How streams open, are acknowledged, and end is the same for both.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, TypeAlias, assert_never

from penstock.credentials.per_identity import PerIdentity
from penstock.errors import InternalError, Overloaded, PenstockError
from penstock.ipc.message_line import MessageLine
from penstock.protocol.data import FrameHeader, ReadReply, ReadRequest
from penstock.protocol.types import Failure
from penstock.transport.link_messages import (
    AckStream,
    Denied,
    EndStream,
    FromReader,
    FromWorker,
    GiveBack,
    Greeting,
    Hello,
    Mapped,
    OpenStream,
    Said,
    StreamOver,
    Welcome,
)
from penstock.wire.worker import encode_reply
from penstock_worker.core.loans import BorrowerId
from penstock_worker.reply_form import Payload, ReplyForm
from penstock_worker.runner.messages import FrameReady
from penstock_worker.runners import ActiveRunners

log = logging.getLogger("penstock.worker")

GREET_WITHIN = 5.0
"""Seconds that a reader gets to say who it is."""

MOST_UNSENT = 1 << 16
"""Messages that wait for a reader; one that says something meanwhile does not read."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, the payloads that follow it, and the loans of its frames."""

    message: FromWorker
    bodies: tuple[memoryview, ...] = ()
    loans: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes that are sent of frames and replies; lent frames are not sent."""
        said = len(self.message.body) if isinstance(self.message, Said) else 0
        return said + sum(body.nbytes for body in self.bodies)


Messages: TypeAlias = list[Outgoing]
Serving: TypeAlias = asyncio.Task[PenstockError | None]
"""Ends with what the reader is told to have gone wrong."""


class Lender(Protocol):
    """A worker, as readers on links use it."""

    def lend(
        self, requests: AsyncIterator[ReadRequest], form: ReplyForm[Messages]
    ) -> AsyncIterator[Messages]:
        """Deliver a task's elements to one reader, as `WorkerApi.read` does in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of one identity."""

    name: str
    of_all: PerIdentity

    def take(self) -> None:
        """Count one more; raise `Overloaded` when that is too many."""
        self.of_all.take(self.name)

    def give_back(self) -> None:
        """Count one less."""
        self.of_all.give_back(self.name)


class LinkedReader(ABC):
    """One reader's connection, and the streams that are open on it.

    Args:
        sock: the connection.
        borrower: the number of this reader among those that borrow frames.
        worker: the worker that delivers elements.
        runners: the runners that wrote the frames.
        admit: returns the count of the reader's streams, or raises an error that says why the
            reader may not come in.
        gone: called when the reader is gone.
        largest: the most bytes of a message from the reader.
        near: whether the reader is on this host.
    """

    borrows: ClassVar[bool]
    """Whether readers of this kind borrow frames, so that nothing of the frames is sent."""

    def __init__(
        self,
        sock: socket.socket,
        borrower: BorrowerId,
        worker: Lender,
        runners: ActiveRunners,
        *,
        admit: Callable[[LinkedReader, Hello], Streams],
        gone: Callable[[LinkedReader], None],
        largest: int,
        near: bool,
    ) -> None:
        self._borrower, self._worker, self._runners = borrower, worker, runners
        self._admit, self._gone, self._near = admit, gone, near
        self._streams: Streams | None = None
        """Set once the reader said who it is, and may be."""
        self._greeted = False
        self._silence = asyncio.get_running_loop().call_later(GREET_WITHIN, self.close)
        self._requests: dict[int, asyncio.Queue[ReadRequest | None]] = {}
        self._serving: set[Serving] = set()
        self._line: MessageLine[FromReader] = MessageLine(
            sock,
            FromReader,  # type: ignore[arg-type]
            self._hear,
            self._on_gone,
            most=largest,
        )

    def close(self) -> None:
        """Hang up."""
        self._line.close()
        self._on_gone("the worker has closed")

    def _on_gone(self, _why: str) -> None:
        self._silence.cancel()
        for requests in self._requests.values():
            requests.put_nowait(None)
        for task in self._serving:
            task.cancel()
        self._runners.hang_up(self._borrower)
        self._gone(self)

    def _hear(self, message: FromReader) -> None:
        greets = isinstance(message, Hello)
        # It does not read, greets twice, or was not let in. Else answers to it would pile up here.
        wrong = self._greeted if greets else self._streams is None
        if self._line.unsent > MOST_UNSENT or wrong:
            self.close()
            return
        match message:
            case Hello():
                self._greet(message)
            case OpenStream(stream, request):
                self._open(stream, request)
            case AckStream(stream, ack):
                if stream in self._requests:
                    self._requests[stream].put_nowait(ack)
            case EndStream(stream):
                if stream in self._requests:
                    self._requests[stream].put_nowait(None)
            case Mapped() | GiveBack():
                self._hear_of_memory(message)
            case _:
                assert_never(message)

    def _greet(self, hello: Hello) -> None:
        self._greeted = True
        try:
            self._streams = self._admit(self, hello)
        except PenstockError as exc:
            self._line.send(Denied(str(exc)))
            return
        self._silence.cancel()
        self._line.send(Welcome())

    # --- streams ---

    def _open(self, stream: int, request: ReadRequest) -> None:
        if stream in self._requests:
            self.close()  # it reuses a number
            return
        streams = self._streams
        if streams is None:
            return
        try:
            streams.take()
        except Overloaded as exc:
            self._line.send(StreamOver(stream, Failure.of(exc)))
            return
        requests = self._requests[stream] = asyncio.Queue[ReadRequest | None]()
        requests.put_nowait(request)
        self._line.send(Greeting(stream))
        serving = asyncio.create_task(self._serve(stream, requests), name=f"link stream {stream}")
        self._serving.add(serving)
        # A task that is cancelled before it begins runs nothing of itself.
        serving.add_done_callback(partial(self._on_served, stream, streams))

    def _on_served(self, stream: int, streams: Streams, serving: Serving) -> None:
        self._serving.discard(serving)
        del self._requests[stream]
        streams.give_back()
        if not serving.cancelled():  # after that the reader may use the number again
            failure = serving.result()
            self._line.send(StreamOver(stream, None if failure is None else Failure.of(failure)))

    async def _serve(
        self, stream: int, requests: asyncio.Queue[ReadRequest | None]
    ) -> PenstockError | None:
        try:
            form = self._form(stream)
            async with aclosing(self._worker.lend(_all_of(requests), form)) as said:  # type: ignore[type-var]
                async for messages in said:
                    for message in messages:
                        self._send(message)
                    del messages
                    await self._line.drained()
                    await self._settled()
        except PenstockError as exc:
            return exc
        except Exception as exc:
            log.exception("a stream to a reader failed")
            return InternalError(f"this worker failed to send to a reader: {exc!r}")
        return None

    # --- what is sent ---

    def _form(self, stream: int) -> ReplyForm[Messages]:
        def reply(said: ReadReply) -> Messages:
            return [Outgoing(Said(stream, encode_reply(said)))]

        return ReplyForm(
            partial(self._frames, stream),
            reply,
            _nbytes,
            near=self._near,
            borrows=self.borrows,
            drop=self._drop,
        )

    def _drop(self, messages: Messages) -> None:
        """Take back what was lent and never sent."""
        for message in messages:
            self._runners.give_back(self._borrower, message.loans)

    @abstractmethod
    def _frames(
        self, stream: int, frames: Sequence[tuple[FrameHeader, FrameReady]], payload: Payload
    ) -> Messages:
        """Return messages that carry *frames*."""

    @abstractmethod
    def _send(self, message: Outgoing) -> None:
        """Send *message*; never waits."""

    @abstractmethod
    def _hear_of_memory(self, message: Mapped | GiveBack) -> None:
        """Take in what the reader says of the memory that it maps."""

    async def _settled(self) -> None:  # noqa: B027  # most readers have nothing to wait for
        """Wait until the next frames can be sent in the best way."""


def _nbytes(messages: Messages) -> int:
    return sum(message.nbytes for message in messages)


async def _all_of(requests: asyncio.Queue[ReadRequest | None]) -> AsyncIterator[ReadRequest]:
    while (request := await requests.get()) is not None:
        yield request

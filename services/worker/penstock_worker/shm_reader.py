"""A reader on the worker's host: its connection, its streams, and what it has borrowed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, assert_never

from penstock.credentials.per_identity import PerIdentity
from penstock.errors import InternalError, Overloaded, PenstockError
from penstock.ipc.message_line import MessageLine
from penstock.protocol.data import FrameHeader, ReadReply, ReadRequest
from penstock.protocol.types import Failure
from penstock.transport.shm_messages import (
    AckStream,
    Denied,
    EndStream,
    FromReader,
    FromWorker,
    GiveBack,
    Greeting,
    Hello,
    Lent,
    LentFrame,
    Mapped,
    Memory,
    MemoryGone,
    OpenStream,
    Said,
    StreamOver,
    Welcome,
)
from penstock.wire.worker import encode_frames, encode_reply
from penstock_worker.core.loans import BorrowerId
from penstock_worker.reply_form import Payload, ReplyForm
from penstock_worker.runner.messages import FrameReady
from penstock_worker.runner.process import RunnerProcess
from penstock_worker.runners import ActiveRunners

log = logging.getLogger("penstock.worker")

SMALL = 1 << 10
"""Frames of fewer bytes are sent as they are: that costs less than to borrow them."""

GREET_WITHIN = 5.0
"""Seconds that a reader gets to say who it is."""

ANSWER_WITHIN = 1.0
"""Seconds that a reader gets to map memory; after that it is sent copies until it has."""

MOST_UNSENT = 1 << 16
"""Messages that wait for a reader; one that says something meanwhile does not read."""

Messages: TypeAlias = list[FromWorker]
Serving: TypeAlias = asyncio.Task[PenstockError | None]
"""Ends with what the reader is told to have gone wrong."""
Lend: TypeAlias = Callable[
    [AsyncIterator[ReadRequest], ReplyForm[Messages]], AsyncIterator[Messages]
]


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


@dataclass(slots=True)
class _Announced:
    """A runner's memory, by the number that the reader knows it by."""

    memory: int
    mapped: bool = False


class LocalReader:
    """A connection of a reader; *lend* reads for it, once *admit* has no objection.

    *gone* is called at its end.
    """

    def __init__(
        self,
        sock: socket.socket,
        borrower: BorrowerId,
        lend: Lend,
        runners: ActiveRunners,
        *,
        admit: Callable[[LocalReader, str, str], str],
        gone: Callable[[LocalReader], None],
        streams: Streams,
        largest: int,
    ) -> None:
        self._borrower, self._lend, self._runners = borrower, lend, runners
        self._admit, self._gone, self._streams = admit, gone, streams
        self.admitted = False
        """Whether it said who it is, and may be."""
        self._greeted = False
        self._silence = asyncio.get_running_loop().call_later(GREET_WITHIN, self.close)
        self._announced: dict[RunnerProcess, _Announced] = {}
        self._memories = 0
        self._unanswered: set[int] = set()
        self._answered = asyncio.Event()
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
        self._announced.clear()
        self._gone(self)

    def _hear(self, message: FromReader) -> None:
        greets = isinstance(message, Hello)
        # It does not read, greets twice, or was not let in. Else answers to it would pile up here.
        if self._line.unsent > MOST_UNSENT or (self._greeted if greets else not self.admitted):
            self.close()
            return
        match message:
            case Hello(boot_id, token):
                self._greeted = True
                self._greet(self._admit(self, boot_id, token))
            case OpenStream(stream, request):
                self._open(stream, request)
            case AckStream(stream, ack):
                if stream in self._requests:
                    self._requests[stream].put_nowait(ack)
            case EndStream(stream):
                if stream in self._requests:
                    self._requests[stream].put_nowait(None)
            case Mapped(memory, why):
                self._on_mapped(memory, why)
            case GiveBack(loans):
                self._runners.give_back(self._borrower, loans)
            case _:
                assert_never(message)

    def _greet(self, refusal: str) -> None:
        if refusal:
            self._line.send(Denied(refusal))
            return
        self.admitted = True
        self._silence.cancel()
        self._line.send(Welcome())

    async def _settled(self) -> None:
        """Wait a while for an answer about memory: what is sent meanwhile would be copied."""
        if self._unanswered:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_WITHIN):
                    await self._answered.wait()

    def _on_mapped(self, memory: int, why: str) -> None:
        for announced in self._announced.values():
            if announced.memory == memory:
                announced.mapped = not why
        self._unanswered.discard(memory)
        if not self._unanswered:
            self._answered.set()

    # --- streams ---

    def _open(self, stream: int, request: ReadRequest) -> None:
        if stream in self._requests:
            self.close()  # it reuses a number
            return
        try:
            self._streams.take()
        except Overloaded as exc:
            self._line.send(StreamOver(stream, Failure.of(exc)))
            return
        requests = self._requests[stream] = asyncio.Queue[ReadRequest | None]()
        requests.put_nowait(request)
        self._line.send(Greeting(stream))
        serving = asyncio.create_task(self._serve(stream, requests), name=f"shm stream {stream}")
        self._serving.add(serving)
        # A task that is cancelled before it begins runs nothing of itself.
        serving.add_done_callback(partial(self._on_served, stream))

    def _on_served(self, stream: int, serving: Serving) -> None:
        self._serving.discard(serving)
        del self._requests[stream]
        self._streams.give_back()
        if not serving.cancelled():  # after that the reader may use the number again
            failure = serving.result()
            self._line.send(StreamOver(stream, None if failure is None else Failure.of(failure)))

    async def _serve(
        self, stream: int, requests: asyncio.Queue[ReadRequest | None]
    ) -> PenstockError | None:
        try:
            form = self._form(stream)
            async with aclosing(self._lend(_all_of(requests), form)) as said:  # type: ignore[type-var]
                async for messages in said:
                    for message in messages:
                        self._line.send(message)
                    del messages
                    await self._line.drained()
                    await self._settled()
        except PenstockError as exc:
            return exc
        except Exception as exc:
            log.exception("a stream to a reader on this host failed")
            return InternalError(f"this worker failed to send to a reader: {exc!r}")
        return None

    # --- what is sent ---

    def _form(self, stream: int) -> ReplyForm[Messages]:
        def reply(said: ReadReply) -> Messages:
            return [Said(stream, encode_reply(said))]

        return ReplyForm(
            partial(self._frames, stream), reply, _nbytes, near=True, borrows=True, drop=self._drop
        )

    def _frames(
        self, stream: int, frames: Sequence[tuple[FrameHeader, FrameReady]], payload: Payload
    ) -> Messages:
        """Return messages of *frames*: lent where that can be, else with copies."""
        messages: Messages = []
        lent: list[LentFrame] = []
        copied: list[tuple[FrameHeader, memoryview]] = []

        def flush() -> None:
            if lent:
                messages.append(Lent(stream, tuple(lent)))
                lent.clear()
            if copied:
                messages.append(Said(stream, encode_frames(copied)))
                copied.clear()

        for header, frame in frames:
            memory = self._memory(frame)
            if memory is None:
                if lent:
                    flush()
                copied.append((header, payload(frame)))
                continue
            if copied:
                flush()
            loan = self._runners.lend(self._borrower, frame)
            where = (memory, frame.offset, frame.nbytes)
            lent.append(LentFrame(header, *where, loan.number, loan.out))
        flush()
        return messages

    def _memory(self, frame: FrameReady) -> int | None:
        """Return by what number the reader has the memory of *frame* mapped, if it has."""
        if frame.nbytes < SMALL:
            return None
        runner = self._runners.runner_of(frame)
        if runner is None:
            return None
        announced = self._announced.get(runner)
        if announced is None:
            announced = self._announce(runner)
        return announced.memory if announced is not None and announced.mapped else None

    def _announce(self, runner: RunnerProcess) -> _Announced | None:
        for before in [known for known in self._announced if known.arena_file < 0]:
            self._line.send(MemoryGone(self._announced.pop(before).memory))
        file = runner.arena_file
        self._memories += 1
        there = Memory(self._memories, runner.arena.nbytes, os.fstat(file).st_ino)
        try:
            self._line.send(there, file)
        except OSError as exc:
            log.warning("a reader on this host gets copies: %s", exc)
            return None
        self._unanswered.add(self._memories)
        self._answered.clear()
        announced = self._announced[runner] = _Announced(self._memories)
        return announced

    def _drop(self, messages: Messages) -> None:
        """Take back what was lent and never sent."""
        for message in messages:
            if isinstance(message, Lent):
                loans = tuple(frame.loan for frame in message.frames)
                self._runners.give_back(self._borrower, loans)


def _nbytes(messages: Messages) -> int:
    return sum(len(message.body) for message in messages if isinstance(message, Said))


async def _all_of(requests: asyncio.Queue[ReadRequest | None]) -> AsyncIterator[ReadRequest]:
    while (request := await requests.get()) is not None:
        yield request

"""A session's streams on the event loop: one to the dispatcher, one for each task.

It performs the core's effects and passes on what arrives; it decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, assert_never

from penstock.credentials.caller import caller_of
from penstock.engine.loop_time import LoopClock
from penstock.errors import PenstockError, Unavailable
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.data import Ack, AllSent, FrameHeader, ReadRequest, Recall, StreamEnd
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.nearness import KnownWorker
from penstock.protocol.types import Failure, TaskId, WorkerId
from penstock.reader.core.effects import (
    AskWorker,
    CloseTaskStream,
    LookAgain,
    OpenTaskStream,
    ReaderEffect,
    SendAck,
    SendHeartbeat,
    TellLog,
)
from penstock.reader.core.flow_control import ACK_EVERY
from penstock.reader.core.reachability import ANSWER_WITHIN
from penstock.reader.core.session_core import SessionCore
from penstock.reader.core.task_stream import Held
from penstock.reader.session.line import Line
from penstock.reader.session.link_traffic import LinkMeter
from penstock.reader.session.payload import ReaderTrace
from penstock.transport.in_process import here
from penstock.transport.pool import TransportPool
from penstock.wire.dispatcher import DispatcherClient
from penstock.wire.worker import Replies

log = logging.getLogger("penstock.reader")

FAREWELL, OWING = 0.3, 60.0
"""Seconds that the dispatcher gets to answer a reader that leaves; with acks that it owes it."""

CLOSE_WITHIN, OWING_WITHIN = 0.8, 3.0
"""Seconds that all of it gets to close; with acks that it owes, which go on being sent later."""

NO_ANSWER = "no answer yet"
"""What is wrong with a stream that is new."""

SILENCE, SILENT_BEATS, MAX_SILENCE = 3.0, 5, 15.0
"""Seconds, and intervals, without a view after which a new connection is tried: the old one may
lead nowhere. Doubled each time, for it may be the dispatcher that stands still."""

WORDS_TOLD = 250
"""The most characters by which the dispatcher is told what a loop waits for."""

LINKS_TOLD = 16
"""Of so many workers the dispatcher is told what came from them: a heartbeat stays small."""

RETRY, MAX_RETRY = 0.05, 1.0
"""Seconds before the control stream is opened anew: doubled each time, up to the second."""


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How a session reads."""

    dispatcher: str
    heartbeat_interval: float
    timeout: float
    writable: bool
    transport: str | None = None
    """The name of the transport that is wanted; None takes the nearest."""
    line: Line | None = None
    """By which the pass was opened: its connection is read by, too."""

    @property
    def network(self) -> tuple[Line, float, str | None]:
        """What the network needs to know."""
        return self.line or Line(self.dispatcher), self.heartbeat_interval, self.transport


@dataclass(slots=True, eq=False)
class _NetworkStream:
    """One subscription of a task, being read from *worker*."""

    worker: WorkerId
    requests: asyncio.Queue[ReadRequest] = field(default_factory=asyncio.Queue)
    reading: asyncio.Task[None] | None = None

    def forget(self, _task: asyncio.Task[None]) -> None:
        """Drop the task that is over: its error refers to its frames, and these to gRPC."""
        self.reading = None


class SessionPort(Protocol):
    """What the streams of a session need of it. All but `core` takes the session's lock."""

    @property
    def core(self) -> SessionCore:
        """What decides; it is changed through `apply` only."""

    def apply(self, change: Callable[..., None], *args: Any) -> None:
        """Call *change*, a method of the core, with what happened."""

    def on_frames(self, frames: Sequence[tuple[FrameHeader, memoryview]]) -> None:
        """Take in the frames of one message."""

    @property
    def links(self) -> tuple[LinkTraffic, ...]:
        """What came from each worker, and how much of it is here."""

    @property
    def awaited(self) -> str:
        """What a thread waits for here, in words; nothing if none does."""

    def heartbeat(self) -> ReaderHeartbeat:
        """Return the next heartbeat."""

    def on_tick(self, idle_from: float) -> float:
        """Look at the clock; return the seconds until the next look."""

    def take_effects(self) -> list[ReaderEffect]:
        """Return what is to be done now, in order."""

    def fail(self, failure: BaseException) -> None:
        """End the session with *failure*."""


class SessionNetwork:
    """What one reader has open. Everything but the constructor runs in the event loop."""

    def __init__(
        self,
        session: SessionPort,
        line: Line,
        heartbeat_interval: float,
        transport: str | None = None,
    ) -> None:
        self.loop_clock: LoopClock | None = None
        """Measures how long the training loop waits."""
        self._session = session
        self._line, self._heartbeat_interval = line, heartbeat_interval
        self._streams: dict[TaskId, _NetworkStream] = {}
        self._transports = TransportPool(transport, caller_of(line.address))
        self._traffic = LinkMeter()
        self.trace = ReaderTrace()
        """When the frames were here that are traced."""
        self._asking: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._heartbeat_now, self._wake, self._leaving, self._parted = (
            asyncio.Event() for _ in "1234"
        )
        self.reason = NO_ANSWER
        """What is wrong with the stream to the dispatcher; empty while it answers."""

    @property
    def transport(self) -> Mapping[str, str]:
        """The transport by which each worker is read; any thread."""
        return self._transports.chosen

    def links(self, held: Mapping[WorkerId, Held]) -> tuple[LinkTraffic, ...]:
        """Return what came from each worker, the most first, if that is *held*; any thread."""
        return self._traffic.traffic(self._transports.chosen, held)

    async def run(self) -> None:
        """Read until `leave`; what goes wrong fails the session."""
        try:
            async with self._transports, asyncio.TaskGroup() as self._group:
                tasks = [
                    self._group.create_task(self._control_forever(), name="reader-control"),
                    self._group.create_task(self._tick_forever(), name="reader-clock"),
                ]
                await self._leaving.wait()
                await self._take_leave()
                for task in (*tasks, *self._asking):
                    task.cancel()
                for name in list(self._streams):
                    self._close(name)
        except Exception as exc:  # noqa: BLE001  # a loop that waits must hear of it
            self._session.fail(_innermost(exc))
        finally:
            self._group = None
            await self._line.close()

    def leave(self) -> None:
        """Perform the last effects, and end `run` when the dispatcher knows."""
        self.perform_or_fail()
        self._leaving.set()

    def wake(self) -> None:
        """Let the clock look again at what is due."""
        self._wake.set()

    def perform(self) -> None:
        """Perform the effects of the core."""
        for effect in self._session.take_effects():
            self._perform(effect)

    def perform_or_fail(self) -> None:
        """Perform effects for the event loop, which would only log an error."""
        try:
            self.perform()
        except Exception as exc:  # noqa: BLE001  # a loop that waits must hear of it
            self._session.fail(exc)

    def _perform(self, effect: ReaderEffect) -> None:
        match effect:
            case SendHeartbeat():
                self._heartbeat_now.set()
            case OpenTaskStream():
                self._open(effect)
            case CloseTaskStream(task):
                self._close(task)
            case SendAck(task, ack):
                self._ack(task, ack)
            case TellLog(line):
                log.warning("%s", line)
            case AskWorker(worker):
                if self._group is not None and not self._leaving.is_set():
                    asking = self._group.create_task(self._ask(worker), name="reader-question")
                    self._asking.add(asking)
                    asking.add_done_callback(self._asking.discard)
            case LookAgain():
                self.wake()
            case _:
                assert_never(effect)

    def _ack(self, task: TaskId, ack: Ack) -> None:
        if task in self._streams:
            if traced := self.trace.of(task):
                ack = replace(ack, traced=traced)
            self._streams[task].requests.put_nowait(ack)

    def _open(self, effect: OpenTaskStream) -> None:
        self._close(effect.task)
        if self._group is not None and not self._leaving.is_set():
            stream = self._streams[effect.task] = _NetworkStream(effect.worker)
            stream.requests.put_nowait(effect.request)
            reading = self._read(effect, stream.requests)
            stream.reading = self._group.create_task(reading, name="reader-stream")
            stream.reading.add_done_callback(stream.forget)

    def _close(self, task: TaskId) -> None:
        stream = self._streams.pop(task, None)
        if stream is not None and stream.reading is not None:
            stream.reading.cancel()
        self.trace.of(task)  # who asked on that stream is told no more

    # --- the dispatcher ---

    async def _control_forever(self) -> None:
        pause = RETRY
        silence = max(SILENCE, SILENT_BEATS * self._heartbeat_interval)
        while True:
            try:
                await self._control(silence)
                break
            except PenstockError as exc:
                if not exc.retryable:
                    self._session.fail(exc)
                    break
                if self.reason:
                    pause, silence = min(2 * pause, MAX_RETRY), min(2 * silence, MAX_SILENCE)
                else:
                    pause, silence = RETRY, max(SILENCE, SILENT_BEATS * self._heartbeat_interval)
                self.reason = str(exc)
            await asyncio.sleep(pause)
        self._parted.set()

    async def _control(self, silence: float) -> None:
        """Read views by one connection, until it is known there that this reader left.

        Raises:
            Unavailable: when nothing comes for *silence* seconds.
        """
        core = self._session.core
        async with (
            self._line.channel() as channel,
            aclosing(DispatcherClient(channel).reader_control(self._heartbeats())) as views,  # type: ignore[type-var]
        ):
            while not core.membership.left:
                try:
                    async with asyncio.timeout(silence):
                        view = await anext(views, None)
                except TimeoutError:
                    raise Unavailable(f"silent for {silence:g} s") from None
                if view is None:
                    raise Unavailable("it hung up")
                self.reason = ""
                core.vicinity.see(here())
                self._session.apply(core.on_view, view)

    async def _heartbeats(self) -> AsyncIterator[ReaderHeartbeat]:
        """Yield a heartbeat now, regularly, and when something changed; the last one leaves."""
        while True:
            self._heartbeat_now.clear()
            heartbeat, nearby = self._session.heartbeat(), here()
            loop = None if self.loop_clock is None else self._loop_time(self.loop_clock)
            counts = self._transports.counts
            links = self._session.links[:LINKS_TOLD]
            yield replace(heartbeat, in_process=nearby, transports=counts, loop=loop, links=links)
            if heartbeat.leaving:  # not the session's state: it may leave after this was made
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_interval):
                    await self._heartbeat_now.wait()

    def _loop_time(self, loop: LoopClock) -> LoopTime:
        """Return how *loop* does, up to now; if it waits, also for what."""
        newest = loop.newest()
        if not newest.waiting:
            return newest
        here = loop.working_in()
        waits_for = (here or self._session.awaited)[:WORDS_TOLD]
        return replace(newest, waits_for=waits_for, waits_here=bool(here))

    async def _take_leave(self) -> None:
        """Wait until the dispatcher knows that this reader leaves; for long if it owes acks."""
        core, waits = self._session.core, round(OWING / FAREWELL)
        while waits and not (core.membership.left or self._parted.is_set()):
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self._parted.wait()
            waits = waits - 1 if core.owed else 0  # a worker that just died is missed only now

    # --- workers ---

    async def _read(self, effect: OpenTaskStream, requests: asyncio.Queue[ReadRequest]) -> None:
        core, task, subscription = self._session.core, effect.task, effect.request.subscription
        try:
            worker = await self._transports.to(effect.known)
            await self._transports.keep({stream.worker for stream in self._streams.values()})
            here = partial(self._session.apply, core.on_answered, task, subscription)
            async with aclosing(worker.read(_all_of(requests), here)) as messages:  # type: ignore[type-var]
                async for replies in messages:
                    self._replied(effect.worker, replies, subscription)
                    del replies  # the next ones may come late, and the loop drops elements sooner
            raise Unavailable(f"worker {effect.worker} hung up")
        except PenstockError as exc:
            if exc.retryable:
                self._session.apply(core.on_stream_broken, task, subscription, str(exc))
            else:
                end = StreamEnd(task, effect.request.attempt, Failure.of(exc))
                self._session.apply(core.on_stream_ended, subscription, end)

    async def _ask(self, worker: WorkerId) -> None:
        with suppress(PenstockError):  # any other answer is one, too
            try:
                client = await self._transports.to(KnownWorker(worker))
                await client.answer(ANSWER_WITHIN)
            except Unavailable as exc:
                self._session.apply(self._session.core.reachability.silent, worker, str(exc))

    def _replied(self, worker: WorkerId, replies: Replies, subscription: int) -> None:
        """Take in what a message carries; its frames at once, for each change wakes the loop."""
        frames: list[tuple[FrameHeader, memoryview]] = []
        for reply, payload in replies:
            match reply:
                case FrameHeader():
                    frames.append((reply, payload))
                case Recall():
                    self._session.apply(self._session.core.on_recall, reply)
                case AllSent():
                    self._session.apply(self._session.core.on_all_sent, reply)
                case StreamEnd():
                    self._session.apply(self._session.core.on_stream_ended, subscription, reply)
                case _:
                    assert_never(reply)
        if frames:
            self._traffic.note(worker, frames)
            self._session.on_frames(frames)

    # --- time ---

    async def _tick_forever(self) -> None:
        while True:
            self._wake.clear()
            delay = self._session.on_tick(ACK_EVERY)
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wake.wait()


async def _all_of(requests: asyncio.Queue[ReadRequest]) -> AsyncIterator[ReadRequest]:
    while True:
        yield await requests.get()


def _innermost(exc: BaseException) -> BaseException:
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc

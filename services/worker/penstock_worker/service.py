"""A worker at work: streams, runners and a clock around `WorkerCore`."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, TypeVar, assert_never

from penstock.errors import InternalError, PenstockError, Refused, Unavailable, WaitedTooLong
from penstock.protocol.calls import TraceReply
from penstock.protocol.control import WorkerHeartbeat
from penstock.protocol.data import Ack, ReadRequest, Subscribe
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.types import Versions, WorkerId
from penstock.runtime import log_lines
from penstock.runtime.usage import UsageMeter
from penstock.wire.stream import from_this_host
from penstock.wire.worker import Replies
from penstock_worker import file_cache
from penstock_worker.config import TRANSPORTS, WorkerConfig
from penstock_worker.control_stream import ControlOutbox
from penstock_worker.core.events import (
    AbortStream,
    ControlEffect,
    Drained,
    DrainRequested,
    DrainStarted,
    Effect,
    Event,
    HeartbeatDue,
    LogError,
    RequestSplits,
    RetainFrames,
    SendAllSent,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    Tick,
)
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.frame_trace import FrameTrace
from penstock_worker.lent_here import LentHere
from penstock_worker.reply_form import ENCODED, ReplyForm, handed_over
from penstock_worker.request_checks import check_subscription
from penstock_worker.runner.messages import FrameReady
from penstock_worker.runners import ActiveRunners
from penstock_worker.send_buffer import SendBuffer
from penstock_worker.stats import BufferStats, WorkerStats
from penstock_worker.task_stats import cache_stats, frame_buffers, past_stats, task_stats

log = logging.getLogger("penstock.worker")

M = TypeVar("M")

TICK = 0.25
"""Seconds between ticks of the core."""

OPEN_WITHIN = 5.0
"""Seconds that a new stream may stay silent."""

CLOSE_WITHIN = 1.5
"""Seconds that a reader gets for its last acks after the end of a stream."""

WITH_GRPC = WorkerProfile(transports=TRANSPORTS)
"""What a worker offers that has no door for readers but its gRPC port."""

STATS_EVERY = 1.0
"""Seconds between two heartbeats that carry `WorkerStats`."""


class WorkerService:
    """A live worker at *address*; it satisfies `WorkerApi`. A `ControlStream` is its other half."""

    def __init__(
        self,
        address: WorkerId,
        config: WorkerConfig,
        runners: ActiveRunners,
        outbox: ControlOutbox,
        *,
        versions: Versions,
        offered: WorkerProfile = WITH_GRPC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self.draining, self.drained = asyncio.Event(), asyncio.Event()
        """Set when it drains, and when it has drained."""
        self.http = ""
        """Where HTTP is answered, if it is."""
        self._config, self._versions, self._clock = config, versions, clock
        self._core = WorkerCore(
            address,
            time.time_ns(),
            config.heartbeat_interval,
            config.buffer_bytes,
            config.cross_trainer_cache_size_bytes,
            config.slot_count,
            config.total_buffer_size,
        )
        self._profile = replace(
            offered, host=platform.node(), tags=config.worker_tags, slots=config.slot_count
        )
        self._runners, self._outbox = runners, outbox
        runners.on_failure = self._fail
        self._here = LentHere(runners)
        self._failure: InternalError | None = None
        self._failed = asyncio.Event()
        self._connections: dict[StreamId, SendBuffer[Any]] = {}
        self._trace, self._usage = FrameTrace(), UsageMeter()
        self._streams = self._wakes = self._copies = 0
        self._stats_at = 0.0
        self._recent: WorkerStats | None = None

    def handle(self, event: Event) -> None:
        """Pass *event* to the core, and perform its effects; nothing once that has failed."""
        if self._failure is not None:
            return
        if isinstance(event, FrameReady):
            self._trace.arrived(event)
        try:
            effects = self._core.handle(event, self._clock())
            for stream, same in groupby(effects, _stream_of_frame):
                frames = list[SendFrame]()
                for effect in same:
                    if isinstance(effect, SendFrame):
                        frames.append(effect)
                    else:
                        self._perform(effect)
                if stream is not None:
                    self._send_frames(stream, frames)
        except Exception as exc:  # noqa: BLE001  whatever it is, the state may be half changed
            self._fail(exc)

    async def tick_forever(self) -> None:
        """Send ticks to the core, until cancelled.

        Raises:
            InternalError: if a step of the worker itself failed: the worker must end.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._failed.wait()
            self._check_sound()
            self.handle(Tick())

    def drain(self) -> None:
        """Hand over the tasks, so that other workers continue them; `drained` says when."""
        self.handle(DrainRequested())

    async def close(self) -> None:
        """Start nothing more, and abort every stream: readers look elsewhere."""
        for out in self._connections.values():
            out.fail(Unavailable(f"worker {self.address} has stopped"))
        await self._runners.close()

    def _fail(self, exc: BaseException) -> None:
        """Stop: no decision is made on a state that is half changed."""
        if self._failure is None:
            log.critical("worker %s failed, and stops", self.address, exc_info=exc)
            self._failure = InternalError(
                f"worker {self.address} failed, and stops: {exc!r}; its log says where"
            )
            self._failed.set()
            for out in self._connections.values():
                out.fail(Unavailable(str(self._failure)))

    def _check_sound(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- readers ---

    def read(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[bytes]:
        """See `WorkerApi.read`."""
        return self._read(requests, ENCODED)

    def hand_over(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[Replies]:
        """See `InProcessWorker.hand_over`."""
        return self._read(requests, handed_over(self._here.payload))

    def lend(self, requests: AsyncIterator[ReadRequest], form: ReplyForm[M]) -> AsyncIterator[M]:
        """See `penstock_worker.linked_reader.Lender.lend`."""
        return self._read(requests, form)

    async def _read(
        self, requests: AsyncIterator[ReadRequest], form: ReplyForm[M]
    ) -> AsyncIterator[M]:
        request = await _first(requests)
        if self._failure is not None:
            raise Unavailable(str(self._failure))
        self._streams += 1
        # Within a host no link is spared: what compression costs is missed by what it would save.
        near = form.near or from_this_host(requests)
        clock = None if near else self._clock
        out = SendBuffer(StreamId(self._streams), self.handle, form, clock)
        self._connections[out.name] = out
        hearing = asyncio.create_task(self._read_requests(out, requests), name=f"stream {out.name}")
        try:
            self._trace.opened(out.name, request)
            self.handle(StreamOpened(out.name, request))
            while (message := await out.next()) is not None:
                yield message
            await asyncio.wait({hearing}, timeout=CLOSE_WITHIN)
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})
            del self._connections[out.name]
            self._trace.closed(out.name)
            out.drop()
            self._wakes += out.wakes
            self.handle(StreamClosed(out.name))

    @property
    def incarnation(self) -> int:
        """Which life of the worker at its address this is."""
        return self._core.incarnation

    async def status(self) -> bytes:
        """See `WorkerApi.status`."""
        return self.stats().as_json()

    async def trace(self, after: int) -> TraceReply:
        """See `WorkerApi.trace`."""
        return self._trace.since(after)

    async def _read_requests(
        self, out: SendBuffer[Any], requests: AsyncIterator[ReadRequest]
    ) -> None:
        """Pass on what a reader sends; its end is the end of the stream."""
        try:
            async for request in requests:
                if not isinstance(request, Ack):
                    raise Refused("a reader may send one Subscribe for each stream")  # noqa: TRY301
                if request.traced:
                    self._trace.taken(out.name, request.traced)
                self.handle(StreamAcked(out.name, request))
            out.end()
        except PenstockError as exc:
            out.fail(exc)
        except Exception as exc:
            log.exception("stream %d of worker %s failed", out.name, self.address)
            out.fail(InternalError(f"worker {self.address} failed to read from a reader: {exc!r}"))

    # --- effects ---

    def _perform(self, effect: ControlEffect) -> None:
        match effect:
            case StartRunner() | StopRunner() | RetainFrames() | SendToRunner():
                self._perform_on_runner(effect)
            case RequestSplits(request):
                self._outbox.add(request)
            case HeartbeatDue():
                self._outbox.request_heartbeat()
            case DrainStarted():
                self.draining.set()
            case Drained():
                self.drained.set()
            case LogError(text, task, attempt):
                log.error("%s", text, extra=log_lines.about(task=task, attempt=attempt))
            case SendRecall() | SendAllSent() | SendEnd() | AbortStream():
                self._send(effect)
            case _:
                assert_never(effect)

    def _perform_on_runner(
        self, effect: StartRunner | StopRunner | RetainFrames | SendToRunner
    ) -> None:
        match effect:
            case StartRunner():
                self._runners.start(effect, self.handle)
            case StopRunner(run):
                self._runners.stop(run)
            case RetainFrames(run, frames):
                self._runners.retain(run, frames)
            case SendToRunner(command):
                self._runners.send(command)
            case _:
                assert_never(effect)

    def _send_frames(self, stream: StreamId, effects: list[SendFrame]) -> None:
        """Send frames on one stream, in one message: they are copied now."""
        out = self._connections.get(stream)
        if out is not None:
            frames = [(effect.header, effect.frame) for effect in effects]
            if self._trace.on:
                frames = [self._trace.sent(stream, *one) for one in frames]
            lent = self._runners.loans.lent_frames
            out.put(out.form.frames(frames, self._runners.payload))
            self._copies += len(effects) - (self._runners.loans.lent_frames - lent)

    def _send(self, effect: SendRecall | SendAllSent | SendEnd | AbortStream) -> None:
        out = self._connections.get(effect.stream)
        if out is None:
            return
        match effect:
            case SendRecall(_, recall):
                out.put(out.form.reply(recall))
            case SendAllSent(_, all_sent):
                out.put(out.form.reply(all_sent))
            case SendEnd(_, end):
                out.end(out.form.reply(end))
            case AbortStream(_, why):
                out.fail(Unavailable(why))
            case _:
                assert_never(effect)

    # --- what the worker reports of itself ---

    def heartbeat(self, first: bool) -> WorkerHeartbeat:
        """Return the present heartbeat, with versions if it is the *first* of a stream."""
        self._check_sound()
        heartbeat, now = replace(self._core.heartbeat(), profile=self._profile), self._clock()
        if first:
            heartbeat = replace(heartbeat, versions=self._versions)
        if first or now >= self._stats_at:
            self._stats_at, self._recent = now + STATS_EVERY, self.stats()
            heartbeat = replace(heartbeat, stats=self._recent.as_json())
        return heartbeat

    def recent_stats(self) -> WorkerStats:
        """Return those of the newest heartbeat that had any, or of now."""
        return self.stats() if self._recent is None else self._recent

    def stats(self) -> WorkerStats:
        """Return all counters."""
        return WorkerStats(
            self.address,
            self._core.incarnation,
            self._config.worker_tags,
            self._core.draining,
            **asdict(self._core.counters),
            copies=self._copies,
            lent=self._runners.loans.lent_frames,
            copied_out=self._runners.loans.copied_frames,
            wakes=self._wakes + sum(out.wakes for out in self._connections.values()),
            streams=len(self._connections),
            tasks=task_stats(self._core.attempts.values()),
            buffers=self._buffers(),
            caches=cache_stats(self._core.attempts.values()),
            usage=self._usage.look(),
            past=past_stats(self._core.past_times),
            security=self._config.security.value,
            tensorflow=self._profile.tensorflow,
            file_cache=file_cache.totals(self._config),
            http=self.http,
            storage=self._runners.files_read,
        )

    def _buffers(self) -> tuple[BufferStats, ...]:
        outgoing = sum(out.nbytes for out in self._connections.values())
        return (
            *frame_buffers(self._core.attempts),
            BufferStats("frames on their way into gRPC", outgoing, 0),
            BufferStats("frames that readers keep", self._runners.loans.kept, 0),
            BufferStats("frames of runners that died", self._runners.retained_bytes, 0),
            BufferStats("definitions", self._runners.definition_bytes, 0),
        )


def _stream_of_frame(effect: Effect) -> StreamId | None:
    return effect.stream if isinstance(effect, SendFrame) else None


async def _first(requests: AsyncIterator[ReadRequest]) -> Subscribe:
    try:
        async with asyncio.timeout(OPEN_WITHIN):
            request = await anext(requests)
    except TimeoutError:
        raise WaitedTooLong(f"a reader said nothing for {OPEN_WITHIN:g} s") from None
    except StopAsyncIteration:
        raise Unavailable("a reader hung up before it said what to read") from None
    if not isinstance(request, Subscribe):
        raise Refused(
            f"the first message of a reader must be Subscribe, not {type(request).__name__}"
        )
    check_subscription(request)
    return request

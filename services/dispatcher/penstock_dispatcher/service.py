"""A dispatcher at work: streams, calls and a clock around `DispatcherCore`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from penstock.credentials.entrance import Entrance
from penstock.credentials.per_identity import PerIdentity, identity_answered
from penstock.engine import seeds
from penstock.errors import InternalError, PenstockError, StoreFull, Unavailable
from penstock.protocol.calls import (
    OpenIterationReply,
    OpenIterationRequest,
    RegisteredDataset,
    Registration,
)
from penstock.protocol.control import (
    Assignment,
    ReaderHeartbeat,
    ReaderView,
    WorkerCommand,
    WorkerEvent,
    WorkerHeartbeat,
)
from penstock.protocol.types import DatasetId, Versions, WorkerId
from penstock.runtime.clock import now
from penstock.runtime.usage import usage
from penstock.runtime.versions import versions
from penstock_dispatcher import fact_log, request_checks
from penstock_dispatcher.calls import PendingCalls, ReaderSessions, ended
from penstock_dispatcher.clock import new_history
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core.events import (
    AppendFact,
    Call,
    DrainHost,
    DrainWorker,
    Effect,
    Event,
    ListSourceFiles,
    OpenIteration,
    ReaderDisconnected,
    SetWeights,
    StartHistory,
    Tick,
    WorkerDisconnected,
)
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.core.stats import DispatcherStats, OpenedPort
from penstock_dispatcher.deferred import DeferredEvents, view_meanwhile
from penstock_dispatcher.journal.journal import Journal
from penstock_dispatcher.outbox import Outbox
from penstock_dispatcher.performer import DecisionTimes, OutwardEffect, Performer
from penstock_dispatcher.registrar import Registrar
from penstock_dispatcher.work_dir.definition_store import definitions_at
from penstock_dispatcher.work_dir.listing_store import listed, listings_at

log = logging.getLogger("penstock.dispatcher")

T = TypeVar("T")

LOOK = 1.0
"""Seconds between looks whether the work directory is there."""

SWEEP = 600.0
"""Seconds between sweeps of unused definitions."""


class DispatcherService:
    """A live dispatcher; it satisfies `DispatcherApi`, and performs what its core decides.

    It continues from the state of *journal*, and is created on the loop that it runs on. Decisions
    of the core pass through the journal in order: facts are appended, effects wait until those
    before them are durable.
    """

    def __init__(
        self,
        config: DispatcherConfig,
        journal: Journal | None = None,
        *,
        clock: Callable[[], float] = now,
        entrance: Entrance | None = None,
    ) -> None:
        self.http, self.tensorflow, self.ending = "", OpenedPort(), False
        self._config, self._clock = config, clock
        self.journal = self._journal = journal or Journal()
        self.decisions, self.facts = DecisionTimes(), fact_log.FactLog(self._journal.state)
        versions()  # read now, and known from then on: later there may be no descriptor for that
        self._core = DispatcherCore(self._journal.state, config.settings, clock(), time.time())
        sealing = entrance.definitions_key if entrance is not None else b""
        kept = definitions_at(config.work_dir, power=config.outlasts_power, key=sealing)
        self._registrar = Registrar(self._core, kept, *config.of_definitions, self.ask_for)
        self._reading = PerIdentity(*config.of_readers)
        self._listings = listings_at(config.work_dir, power=config.outlasts_power)
        self._calls, self._deferred = PendingCalls(), DeferredEvents()
        self._performer = Performer(self._calls, self._handle)
        self._workers, self._readers = self._performer.workers, self._performer.readers
        self._views_due, self._closed, self._failed = False, False, asyncio.Event()
        self._failure: InternalError | None = None
        self._end: PenstockError | None = None
        self._journal.attach(self)
        self._restarted = bool(self._core.state.history)
        if not self._restarted:
            self._handle(StartHistory(new_history()))

    @property
    def address(self) -> str:
        """Where workers and readers find this dispatcher, as ``host:port``."""
        return self._core.ctx.address

    @address.setter
    def address(self, address: str) -> None:
        self._core.ctx.address = address

    async def tick_forever(self) -> None:
        """Send ticks to the core, until cancelled; remove unused files.

        Raises:
            JournalError: when the journal cannot be written any more.
            InternalError: when a decision failed; see `_fail`.
        """
        looked = swept = self._clock()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._failed.wait(), self._config.settings.tick_interval)
            self._check_sound()
            self._handle(Tick())
            if self._clock() - looked >= LOOK:
                looked = self._clock()
                self._journal.look()
            if self._clock() - swept >= SWEEP:
                swept = self._clock()
                await self._sweep()

    def close(self, end: PenstockError | None = None) -> None:
        """End all streams, open no more, and decide nothing more. Idempotent.

        With *end*, readers and callers get that error, and do not wait for a restart.
        """
        self._closed = True
        self._end = self._end or end
        self._workers.close_all(Unavailable(f"the dispatcher at {self.address} is stopping"))
        self._readers.close_all(self._stopping())
        self._calls.fail(self._stopping())
        self._performer.close()

    @property
    def core(self) -> DispatcherCore:
        """The core, to look at."""
        return self._core

    def stats(self) -> DispatcherStats:
        """Return all that is known of the cluster now."""
        own: dict[str, Any] = {"http": self.http, "tensorflow": self.tensorflow, "usage": usage()}
        own |= {"security": self._config.security.value, "versions": versions()}
        own |= {"restarted": self._restarted, "ending": self.ending}
        halted = "the dispatcher is stopping" if self._closed else self._journal.halted
        return replace(self._core.stats(self._clock(), halted), **own)

    def unready(self) -> str:
        """Return why nothing is decided now; nothing if it is."""
        return "stopping" if self._closed else str(self._journal.full or "")

    # --- calls ---

    async def register_dataset(
        self, definition: bytes, versions: Versions, registration: Registration | None = None
    ) -> DatasetId:
        """See `DispatcherApi.register_dataset`."""
        self._check_open()
        return await self._registrar.register(definition, versions, registration)

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `DispatcherApi.find_dataset`."""
        self._check_open()
        return await self._registrar.find(dataset_id)

    async def get_definition(self, dataset: DatasetId, python: str = "") -> bytes:
        """See `DispatcherApi.get_definition`."""
        return await self._registrar.definition(dataset, python)

    async def open_iteration(self, request: OpenIterationRequest) -> OpenIterationReply:
        """See `DispatcherApi.open_iteration`."""
        self._check_open()
        request_checks.check_opening(request)
        await self._registrar.ensure(request)
        new = OpenIteration(self._calls.new_call(), request, seeds.fresh(), who=identity_answered())
        answer: OpenIterationReply | ListSourceFiles = await self._ask(new)
        while isinstance(answer, ListSourceFiles):
            known = await listed(answer)
            for i, listing in known.listings.items():
                await self._listings.keep(listing, (known.names or {})[i])
            answer = await self._ask(known)
        return answer

    async def drain(self, worker: WorkerId) -> None:
        """See `DispatcherApi.drain`."""
        await self.ask_for(partial(DrainWorker, worker=worker))

    async def drain_host(self, boot_id: str) -> tuple[WorkerId, ...]:
        """See `DispatcherApi.drain_host`."""
        return tuple(await self.ask_for(partial(DrainHost, boot_id=boot_id)))

    async def set_weights(self, job_name: str, weights: Mapping[str, float], at: int | None) -> int:
        """See `DispatcherApi.set_weights`."""
        request_checks.check_weights(job_name, weights)
        return int(await self.ask_for(partial(SetWeights, job=job_name, weights=weights, at=at)))

    async def status(self) -> bytes:
        """See `DispatcherApi.status`."""
        return msgspec.json.encode(self.stats())

    async def ask_for(self, make: Callable[[Call], Event]) -> Any:
        """Return the answer to the event that *make* makes of a call."""
        self._check_open()
        return await self._ask(make(self._calls.new_call()))

    async def _ask(self, event: Any) -> Any:
        """Return the answer to *event*, which has a call.

        Raises:
            StoreFull: when it may not be decided, or what was decided cannot be written.
        """
        if self._journal.full is not None:
            raise StoreFull(str(self._journal.full))
        async with self._calls.waiting(event.call) as answer:
            self._handle(event)
            return await answer

    async def _sweep(self) -> None:
        """Remove unused files, once that is durable: a restart would look for it."""
        state = self._core.state
        self._journal.call_when_durable(partial(self._registrar.release, set(state.datasets)))
        self._journal.call_when_durable(partial(self._listings.release, state.listings_used))
        await self._registrar.sweep()
        await self._listings.sweep()

    # --- streams ---

    async def worker_control(
        self, events: AsyncIterator[WorkerEvent]
    ) -> AsyncIterator[WorkerCommand]:
        """See `DispatcherApi.worker_control`."""
        self._check_open()
        outbox: Outbox[WorkerCommand] = Outbox(Assignment)
        peers = set()

        def hear(event: WorkerEvent) -> None:
            request_checks.check_worker_event(event)
            peers.add((event.worker, event.incarnation))
            self._workers.lead((event.worker, event.incarnation), outbox)
            self._handle(event)

        reading = asyncio.create_task(self._hear(events, hear, outbox), name="read worker")
        try:
            async for order in outbox:
                yield order
        finally:
            for worker, incarnation in self._workers.forget(peers, outbox):
                self._handle(WorkerDisconnected(worker, incarnation))
            await ended(reading)

    async def reader_control(
        self, heartbeats: AsyncIterator[ReaderHeartbeat]
    ) -> AsyncIterator[ReaderView]:
        """See `DispatcherApi.reader_control`."""
        self._check_open()
        outbox: Outbox[ReaderView] = Outbox(ReaderView)
        peers = ReaderSessions(self._reading)

        def hear(heartbeat: ReaderHeartbeat) -> None:
            request_checks.check_heartbeat(heartbeat)
            self._readers.lead(heartbeat.session, outbox)  # ends an older one, which makes room
            peers.note(heartbeat.session, heartbeat.iteration)
            self._handle(heartbeat)

        reading = asyncio.create_task(self._hear(heartbeats, hear, outbox), name="read reader")
        try:
            async for view in outbox:
                yield view
        finally:
            for session in self._readers.forget(peers, outbox):
                self._performer.views.pop(session, None)
                self._handle(ReaderDisconnected(peers[session], session))
            peers.close()
            await ended(reading)

    def _check_open(self) -> None:
        if self._closed:
            raise self._stopping()

    def _stopping(self) -> PenstockError:
        return self._end or Unavailable(f"the dispatcher at {self.address} is stopping")

    def _check_sound(self) -> None:
        self._journal.check()
        if self._failure is not None:
            raise self._failure

    def _fail(self, doing: str, exc: Exception) -> None:
        """Decide nothing more: the state may be half changed, and differ from the journal.

        Nothing of that is sent or written, so a restart continues from a whole state.
        """
        log.critical("%s failed; the dispatcher stops", doing, exc_info=exc)
        self._closed = True
        self._journal.abandon()
        self._failure = self._failure or InternalError(
            f"the dispatcher at {self.address} stopped, for {doing} failed: {exc!r}. This is a "
            f"fault in Penstock; {self._config.after_fault}"
        )
        self._failed.set()

    async def _hear(
        self, received: AsyncIterator[T], hear: Callable[[T], None], outbox: Outbox[Any]
    ) -> None:
        try:
            async for message in received:
                hear(message)
        except Exception as exc:  # noqa: BLE001  whatever it is, the stream ends with it
            outbox.close(exc)
        else:
            # What is about to be pushed, or waits for the journal, is still sent.
            asyncio.get_running_loop().call_soon(self._journal.call_when_durable, outbox.close)

    # --- decisions ---

    def _handle(self, event: Event) -> None:
        if self._closed:
            return
        if self._journal.blocked:
            self._defer(event)
            return
        try:
            self._commit_effects(self.decisions.timed(self._core.handle, event, self._clock()))
        except Exception as exc:  # noqa: BLE001  whatever it is, nothing may be built on it
            self._fail(f"deciding on {type(event).__name__}", exc)
            return
        if self._core.has_notifications and not self._views_due:
            self._views_due = True
            asyncio.get_running_loop().call_soon(self._send_views)

    def _defer(self, event: Event) -> None:
        """Keep *event* for later; what it tells of figures is shown now."""
        self._deferred.defer(event)
        if isinstance(event, WorkerHeartbeat | ReaderHeartbeat):
            self._core.show(event, self._clock())
        if isinstance(event, ReaderHeartbeat):
            shown = self._performer.views.get(event.session)
            iteration = self._core.state.iterations.get(event.iteration)
            view = view_meanwhile(event, shown, iteration, self._journal.full)
            if view is not None:
                self._readers.put(event.session, view)

    def _send_views(self) -> None:
        self._views_due = False
        if self._closed:
            return
        try:
            self._commit_effects(self._core.take_views(self._clock()))
        except Exception as exc:  # noqa: BLE001  whatever it is, a message was not sent
            self._fail("telling what was decided", exc)

    def _commit_effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendFact):
                self.facts.log(effect.fact, self._core.state)
                self._journal.append(effect.fact)
            else:
                self._journal.call_when_durable(partial(self._perform, effect))

    def full(self, error: StoreFull) -> None:
        """See `Listener.full`."""
        self._deferred.drop_calls()
        self._calls.fail(error)

    def relieved(self) -> None:
        """See `Listener.relieved`."""
        for event in self._deferred.take():
            self._handle(event)

    # --- effects ---

    def _perform(self, effect: OutwardEffect) -> None:
        try:
            self._performer.perform(effect)
        except Exception as exc:  # noqa: BLE001  whatever it is, a caller waits for this
            self._fail(f"performing {type(effect).__name__}", exc)

"""`DispatcherCore`: takes events in, and returns the effects that they have.

A task is *created* when its iteration has a reader and there is a worker. An attempt of it *runs*
until the worker says that everything was acked (*done*), or until the worker is gone or says that
it no longer runs it. Then it waits until all live readers have fenced that attempt, and the next
one starts. When all its tasks are done an iteration is *finished*.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import assert_never

from penstock.errors import PenstockError
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import ReaderHeartbeat, SplitRequest, WorkerHeartbeat
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus
from penstock_dispatcher.core import (
    admission,
    cache_members,
    consumers,
    counting,
    hosting,
    jobs,
    mixtures,
    readers,
    registrations,
    restore,
    scheduler,
    unread,
    views,
    wait_reasons,
    worker_entries,
    workers,
)
from penstock_dispatcher.core.context import DRIFT, DecisionContext
from penstock_dispatcher.core.events import (
    Called,
    CancelRecording,
    DrainHost,
    DrainWorker,
    Effect,
    Event,
    FilesOrdered,
    FindDataset,
    FindRecording,
    ListSourceFiles,
    OpenIteration,
    ReaderDisconnected,
    RegisterDataset,
    ReplyToCall,
    SetWeights,
    StartHistory,
    StartRecording,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import HistoryStarted
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.stats import DispatcherStats


class DispatcherCore:
    """All that the dispatcher decides.

    `handle` takes an event and returns the effects that follow at once. News for workers and
    readers is gathered, and `take_views` returns it: call that once for any number of events. *now*
    is of a clock that never jumps; *date* is the same moment in seconds since 1970; it is only
    shown.
    """

    def __init__(
        self, state: DispatcherState, settings: CoreSettings, now: float, date: float = 0.0
    ) -> None:
        self.ctx = DecisionContext(state, settings, now, date)
        self._ticked = self._swept = now

    @property
    def state(self) -> DispatcherState:
        """All that is durable."""
        return self.ctx.state

    @property
    def has_notifications(self) -> bool:
        """Whether `take_views` has anything to return."""
        return bool(self.ctx.notifications)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle *event*, and return its effects, in order."""
        ctx = self.ctx
        ctx.effects = []
        match event:
            case ReaderHeartbeat():
                readers.on_heartbeat(ctx, event, now)
            case WorkerHeartbeat():
                workers.on_heartbeat(ctx, event, now)
            case SplitRequest():
                workers.on_split_request(ctx, event, now)
            case Tick():
                self._on_tick(now)
            case FilesOrdered():
                self._on_files_ordered(event)
            case WorkerDisconnected() | WorkerDead() | ReaderDisconnected():
                self._on_disconnected(event)
            case _:
                self._on_call(event, now)
        while ctx.dirty:
            scheduler.schedule(ctx, ctx.dirty.popitem()[0], now)
        return ctx.effects

    def take_views(self, now: float) -> list[Effect]:
        """Return the assignments and views that follow from all that was handled."""
        return views.send_views(self.ctx, now)

    def stats(self, now: float, halted: str = "") -> DispatcherStats:
        """Return all counters; *halted* says why nothing is decided, if it is not.

        Then nothing else is waited for: who is late was not heard, or not handled.
        """
        ctx = self.ctx
        waited = {} if halted else views.waits(ctx, now)
        in_rounds = consumers.all_stats(ctx, now)
        known = (ctx.state, ctx.soft_state, ctx.counts, ctx.address)
        at = counting.CountedAt(now, now + ctx.epoch)
        found = counting.collect(*known, waited, in_rounds, at)
        return counting.while_halted(found, halted) if halted else found

    def show(self, heartbeat: WorkerHeartbeat | ReaderHeartbeat, now: float) -> None:
        """Keep the figures of a heartbeat that cannot be handled now; nothing is decided by it."""
        self.ctx.soft_state.show(heartbeat, now)

    def _on_disconnected(self, event: WorkerDisconnected | WorkerDead | ReaderDisconnected) -> None:
        match event:
            case WorkerDisconnected():
                workers.on_disconnected(self.ctx, event)
            case WorkerDead():
                workers.on_dead(self.ctx, event)
            case ReaderDisconnected():
                readers.on_disconnected(self.ctx, event)
            case _:
                assert_never(event)

    def _on_call(self, event: StartHistory | Called, now: float) -> None:
        match event:
            case StartHistory(birth):
                self.ctx.commit(HistoryStarted(birth))
            case RegisterDataset():
                registrations.on_register(self.ctx, event)
            case FindDataset():
                registrations.on_find(self.ctx, event)
            case OpenIteration():
                self._on_open(event, now)
            case DrainWorker():
                workers.on_drain(self.ctx, event)
            case DrainHost():
                workers.on_drain_host(self.ctx, event)
            case SetWeights():
                mixtures.on_set_weights(self.ctx, event)
            case StartRecording() | FindRecording() | CancelRecording():
                hosting.on_call(self.ctx, event)
            case _:
                assert_never(event)

    def _on_open(self, event: OpenIteration, now: float) -> None:
        ctx, request = self.ctx, event.request
        try:
            jobs.check_protocol("the client", request.versions)
            if request.parameters.dataset_id:
                registrations.check_id(ctx, request)
            if request.restore:
                plan = restore.plan(ctx, event, now)
            else:
                plan = jobs.plan_opening(ctx.state, event, ctx.settings.worker_addresses)
            if plan.iteration != jobs.OVER:
                admission.check_python(ctx, request.parameters.dataset)
            admission.check_job(ctx, event.who, new=bool(plan.facts and not plan.superseded))
        except PenstockError as exc:
            ctx.effects.append(ReplyToCall(event.call, Failure.of(exc)))
            return
        if plan.patterns is not None:
            ctx.effects.append(ListSourceFiles(event, plan.patterns, plan.order_seeds, plan.names))
            return
        before = unread.read_before(ctx, request, plan, now)
        for abandoned in plan.superseded:
            ctx.supersede(abandoned)
        for fact in plan.facts:
            ctx.commit(fact)
        if plan.facts:
            self._set_files(event, plan)
            cache_members.note_opened(ctx, plan.job)
            ctx.soft_state.opened_by[plan.iteration] = event.who
        if plan.iteration != jobs.OVER:
            ctx.soft_state.idle_since.setdefault(plan.iteration, now)
        ctx.counts.opened += 1
        heartbeat, lease = ctx.settings.refresh_interval, ctx.settings.reader_lease
        ctx.effects.append(
            ReplyToCall(
                event.call, OpenIterationReply(plan.iteration, plan.job, heartbeat, lease, before)
            )
        )

    def _set_files(self, event: OpenIteration, plan: jobs.Plan) -> None:
        """Give the providers of a new pass the names and orders of their files."""
        state = self.ctx.state
        providers = state.iterations[plan.iteration].providers
        for provider, known in zip(providers, plan.providers, strict=False):
            provider.learn_from(known)
        for i, names in (event.names or {}).items() if not plan.providers else ():
            same = state.provider_over(event.listings[i])  # equal names, once in memory
            shared = None if same is None else same.known.names
            providers[i].set_names(names if shared is None else shared, event.orders.get(i, {}))

    def _on_files_ordered(self, event: FilesOrdered) -> None:
        iteration = self.ctx.state.iterations.get(event.iteration)
        if iteration is not None and iteration.providers:
            iteration.providers[event.provider].known.add({event.seed: event.order})

    # --- time ---

    def _on_tick(self, now: float) -> None:
        ctx = self.ctx
        stalled = max(4 * ctx.settings.tick_interval, ctx.settings.worker_lease / 4)
        if now - self._ticked > stalled:
            ctx.soft_state.since = now  # this process was stopped: that is no silence of others
        self._ticked = now
        self._expire_workers(now)
        self._expire_readers(now)
        worker_entries.note_vacancies(ctx, now)
        hosting.place(ctx)
        for name, iteration in ctx.state.iterations.items():
            consumers.note_lost(ctx, name, iteration, now)
        ctx.dirty.update(
            dict.fromkeys(ctx.soft_state.barrier_since)
        )  # one may be past its deadline
        if now - self._swept >= ctx.settings.sweep_interval:
            self._swept = now
            ctx.dirty.update(dict.fromkeys(ctx.unbalanced))
            ctx.unbalanced.clear()
            unread.sweep(ctx, now)
            registrations.sweep(ctx, now)

    def _expire_workers(self, now: float) -> None:
        ctx, quiet = self.ctx, set()
        for worker in list(ctx.state.workers):
            silence = ctx.soft_state.silence(ctx.soft_state.workers[worker].last_heard, now)
            if silence > ctx.settings.worker_lease:
                ctx.remove_worker(worker)
            elif silence > 2 * ctx.settings.heartbeat_interval:
                quiet.add(worker)
        ctx.soft_state.quiet = frozenset(quiet)

    def _expire_readers(self, now: float) -> None:
        ctx, quiet = self.ctx, defaultdict[IterationId, list[ReaderId]](list)
        limit, heartbeats = ctx.settings.reader_lease * DRIFT, 2 * ctx.settings.refresh_interval
        for reader, liveness in list(ctx.soft_state.readers.items()):
            silence = ctx.soft_state.silence(liveness.last_heard, now)
            iteration = ctx.state.iterations[liveness.heartbeat.iteration]
            if silence > limit and self._may_expire(iteration, limit, now):
                ctx.remove_reader(liveness.heartbeat.iteration, reader, ReaderStatus.EXPIRED, now)
            elif silence > heartbeats:
                quiet[liveness.heartbeat.iteration].append(reader)
        ctx.soft_state.silent = frozenset(chain.from_iterable(quiet.values()))
        ctx.soft_state.held_by = {
            name: wait_reasons.held_by(ctx, ctx.state.iterations[name], readers, now)
            for name, readers in quiet.items()
        }

    def _may_expire(self, iteration: IterationRecord, limit: float, now: float) -> bool:
        """Return whether readers expire that were silent for so long: of consumers, all or none."""
        if iteration.rounds is None:
            return True
        soft_state = self.ctx.soft_state
        known = [soft_state.readers[reader] for reader in iteration.live]
        return all(soft_state.silence(one.last_heard, now) > limit for one in known)

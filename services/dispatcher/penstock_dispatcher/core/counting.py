"""Counts all that the dispatcher knows, for status calls and the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from penstock.protocol.measures import OperatorFigures, figures_of
from penstock.protocol.types import IterationId
from penstock_dispatcher.core import account, mixture_stats, skipped_errors, slots
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.hosting import progress_of
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.soft_state import SoftState
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.stats import (
    CacheStats,
    Counts,
    DispatcherStats,
    ForgottenStats,
    IterationStats,
    LostWorker,
    ReaderStats,
    RegistrationStats,
    RoundsStats,
    SaveStats,
    TaskStats,
    WorkerSummary,
)

FORGOTTEN_SHOWN = 1000

CURRENT = 3.0
"""Seconds after which what a silent reader said of its loop is not current any more."""


LOST = 900.0
"""Seconds for which a worker that died counts as disconnected, unless it comes back: an alert sees
it, and one that was replaced under another address is forgotten."""


class CountedAt(NamedTuple):
    """When it is counted: *at* by the core's clock, and as *date* in seconds since 1970."""

    at: float
    date: float


def collect(
    state: DispatcherState,
    soft_state: SoftState,
    counts: Counts,
    address: str,
    waits: Mapping[IterationId, str],
    rounds: Mapping[IterationId, RoundsStats],
    now: CountedAt,
) -> DispatcherStats:
    """Return all counters. *waits* has reasons why passes wait, *rounds* their progress."""
    lost = max(soft_state.lost.values(), default=None)
    return DispatcherStats(
        address,
        state.revision,
        len(state.datasets),
        len(state.jobs),
        counts,
        tuple(_workers(state, soft_state, now.at)),
        tuple(
            replace(_iteration(n, state, soft_state, waits.get(n, ""), now), rounds=rounds.get(n))
            for n in state.iterations
        ),
        forgotten=tuple(islice(_forgotten(state), FORGOTTEN_SHOWN)),
        registrations=tuple(_registrations(state)),
        saves=tuple(_saves(state, soft_state, now.at)),
        up=now.at - soft_state.began,
        worker_lost=None if lost is None else now.at - lost,
        lost_workers=tuple(_lost(soft_state, now.at)),
    )


HALTED = "the dispatcher, which decides nothing now"
"""The reason why each pass waits then: *why* is said once, of the dispatcher."""


def while_halted(found: DispatcherStats, why: str) -> DispatcherStats:
    """Return *found* of a dispatcher that decides nothing: all that runs waits for just that."""
    passes = tuple(
        it
        if it.finished
        else replace(it, waiting_for=HALTED if it.live_readers else "", held_by="")
        for it in found.iterations
    )
    return replace(found, halted=why, iterations=passes)


def _registrations(state: DispatcherState) -> Iterator[RegistrationStats]:
    jobs = defaultdict[str, dict[str, None]](dict)
    for iteration in state.iterations.values():
        jobs[iteration.parameters.dataset_id][iteration.job] = None
    for dataset_id, known in state.registrations.items():
        yield RegistrationStats(
            dataset_id,
            known.dataset,
            state.datasets[known.dataset].outline,
            known.codec.value,
            known.explicit,
            tuple(jobs.get(dataset_id, ())),
        )


def _saves(state: DispatcherState, soft_state: SoftState, now: float) -> Iterator[SaveStats]:
    for save_id, one in state.recordings.items():
        hosted, has = soft_state.hosted.get(save_id), progress_of(soft_state, save_id, one)
        yield SaveStats(
            save_id,
            one.path,
            str(one.stage),
            one.worker or "",
            has.elements,
            one.total if one.total >= 0 else None,
            has.nbytes,
            hosted.rate(now) if one.open and hosted is not None else 0.0,
            "" if one.failure is None else str(one.failure.error()),
        )


def _forgotten(state: DispatcherState) -> Iterator[ForgottenStats]:
    for name, job in reversed(state.jobs.items()):
        dataset, mode = state.datasets.get(job.parameters.dataset), job.parameters.mode.value
        outline = dataset.outline if dataset is not None else ""
        for repetition, was in reversed(job.unfinished.items()):
            failed = was.failure is not None
            yield ForgottenStats(name, repetition, mode, outline, was.acked, failed)


def _iteration(
    name: IterationId,
    state: DispatcherState,
    soft_state: SoftState,
    waiting_for: str,
    now: CountedAt,
) -> IterationStats:
    iteration = state.iterations[name]
    balance = account.of(iteration, soft_state)
    job, dataset = state.jobs.get(iteration.job), state.datasets.get(iteration.parameters.dataset)
    return IterationStats(
        name,
        iteration.job,
        iteration.repetition,
        iteration.parameters.dataset,
        iteration.parameters.mode.value,
        iteration.finished,
        bool(iteration.origin),
        iteration.next_save,
        balance,
        balance.faults(),
        tuple(_tasks(iteration, soft_state)),
        tuple(_readers(iteration, soft_state, now.at)),
        job is not None and job.private,
        dataset.outline if dataset is not None else "",
        _unread(name, iteration, soft_state, now),
        0 if iteration.finished else iteration.unreplaced,
        waiting_for,
        "" if iteration.finished else soft_state.held_by.get(name, ""),
        cache=_cache(iteration, balance),
        dead_letters=skipped_errors.dead_letters(iteration),
        target_workers=iteration.parameters.target_workers.value,
        fills_slots=iteration.fills_slots,
        slots=sum(soft_state.shares.get(name, {}).values()),
        ordered=iteration.ordered,
        mixtures=mixture_stats.mixtures_of(iteration),
        figures=_figures(name, iteration, balance, soft_state, now.at),
    )


def _figures(
    name: IterationId,
    iteration: IterationRecord,
    balance: Account,
    soft_state: SoftState,
    now: float,
) -> tuple[OperatorFigures, ...]:
    """Return the figures of operators; a rate only of a pass that runs."""
    if iteration.finished:
        return figures_of(balance.measures)
    known = soft_state.measured.get(name)
    return figures_of(balance.measures, {} if known is None else known.at(now))


def _unread(
    name: IterationId, iteration: IterationRecord, soft_state: SoftState, now: CountedAt
) -> float | None:
    """Return for how long nobody has read a pass: since its last reader was heard, by kept facts.

    Of a pass that had no reader it is since it was opened, or since the process began.
    """
    if iteration.finished or iteration.live:
        return None
    heard = max((reader.last_heard for reader in iteration.readers.values()), default=0.0)
    if heard:
        return max(0.0, now.date - heard)
    idle = soft_state.idle_since.get(name)
    return None if idle is None else now.at - idle


def _cache(iteration: IterationRecord, balance: Account) -> CacheStats | None:
    if not iteration.cached:
        return None
    made, sent = balance.produced, balance.sent
    return CacheStats(iteration.parameters.when_full, made, sent, sent / made if made else 0.0)


def _workers(state: DispatcherState, soft_state: SoftState, now: float) -> list[WorkerSummary]:
    missed = Counter(
        (worker, report.incarnation)
        for liveness in soft_state.readers.values()
        for worker, report in liveness.heartbeat.unreachable.items()
    )
    return [
        WorkerSummary(
            name,
            worker.incarnation,
            soft_state.silence(liveness.seen, now),
            liveness.connected,
            liveness.leaving,
            tuple(worker.tasks),
            _parsed(liveness.stats),
            missed[name, worker.incarnation],
            liveness.versions,
            worker.profile.host,
            worker.profile.offered,
            worker.profile.tags,
            worker.slots,
            slots.slots_used(state, soft_state, name),
        )
        for name, worker in state.workers.items()
        for liveness in [soft_state.workers[name]]
    ]


def _lost(soft_state: SoftState, now: float) -> Iterator[LostWorker]:
    for name, heard in soft_state.lost.items():
        if now - heard <= LOST:
            yield LostWorker(name, now - heard)


def _parsed(stats: bytes) -> Any:
    try:
        return msgspec.json.decode(stats) if stats else None
    except msgspec.DecodeError:
        return None


def _tasks(iteration: IterationRecord, soft_state: SoftState) -> list[TaskStats]:
    out = []
    for name, task in iteration.tasks.items():
        progress = soft_state.progress.get(name)
        acked = account.acked_now(name, task, soft_state)
        out.append(
            TaskStats(
                name,
                task.index,
                task.attempt,
                task.worker,
                account.head_of(task, progress, acked),
                len(acked.ranges),
                task.splits,
                task.units,
                task.done,
                str(task.failure.error()) if task.failure is not None else None,
            )
        )
    return out


def _readers(iteration: IterationRecord, soft_state: SoftState, now: float) -> list[ReaderStats]:
    out = []
    for name, reader in iteration.readers.items():
        liveness = soft_state.readers.get(name)
        silence = soft_state.silence(liveness.seen, now) if liveness is not None else None
        consumed = max(reader.consumed, liveness.newest.consumed if liveness is not None else 0)
        status, process = reader.status.value, reader.process
        known = ReaderStats(name, status, silence, consumed, process, reader.trainer)
        if liveness is not None and silence is not None and silence <= CURRENT:
            told = liveness.newest
            by = dict(told.transports)
            known = replace(known, transports=by, loop=told.loop, links=told.links)
        out.append(known)
    return out

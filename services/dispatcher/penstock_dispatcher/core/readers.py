"""Heartbeats of readers: they join, report buffered and acked elements, and leave."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused, UnknownIteration
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_dispatcher.core import (
    admission,
    cache_members,
    consumers,
    jobs,
    ordered_tasks,
    rounds,
    scheduler,
    strides,
)
from penstock_dispatcher.core.admission import LOST_HISTORY
from penstock_dispatcher.core.context import DecisionContext, superseded
from penstock_dispatcher.core.events import CloseReaderStream, ReaderDisconnected
from penstock_dispatcher.core.facts import ConsumptionReported, ReaderJoined
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.soft_state import misses

NOBODY = ReaderId(0)
"""Stands for a reader that has no id and needs none."""


def on_heartbeat(ctx: DecisionContext, heartbeat: ReaderHeartbeat, now: float) -> None:
    """Hear a reader; let it in if it is new."""
    ctx.counts.reader_heartbeats += 1
    iteration = ctx.state.iterations.get(heartbeat.iteration)
    if iteration is None:
        _unknown(ctx, heartbeat)
        return
    if heartbeat.reader is not None and heartbeat.reader >= ctx.state.next_id:
        error = Refused(f"reader {heartbeat.reader} is not known here: {LOST_HISTORY}; open anew")
        _close_stream(ctx, heartbeat, error)
        return
    if iteration.finished:
        _too_late(ctx, heartbeat, iteration)
        return
    try:
        consumers.check(heartbeat, iteration)
        strides.check(heartbeat, iteration)
        cache_members.check(heartbeat, iteration)
        reader = _reader_id(ctx, heartbeat, iteration, now)
        if reader is None:
            return  # it asks again
        consumers.check_place(heartbeat, reader, iteration)
    except PenstockError as exc:
        _close_stream(ctx, heartbeat, exc)
        return
    _report_acks(ctx, heartbeat, iteration)
    known = iteration.readers.get(reader)
    if known is not None and known.status is ReaderStatus.LIVE:
        _on_report(ctx, heartbeat, reader, iteration, now)
    elif known is not None:
        consumers.note_back(ctx, heartbeat, reader, iteration)
    status = known.status if known is not None else ReaderStatus.EXPIRED
    if reader == NOBODY:
        status = ReaderStatus.LEFT
    ctx.notifications.answer(heartbeat, reader, status)


def _report_acks(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord
) -> None:
    """Record what a reader acked, under whatever id."""
    if iteration.cached:
        cache_members.on_report(ctx, heartbeat, iteration)
        return
    for task, report in heartbeat.reports.items():
        if task in iteration.tasks:
            ctx.soft_state.report_acks(task, report.acked)
            if iteration.ordered and not iteration.finished:
                ordered_tasks.finish_if_read(ctx, task, iteration.tasks[task])


def _on_report(
    ctx: DecisionContext,
    heartbeat: ReaderHeartbeat,
    reader: ReaderId,
    iteration: IterationRecord,
    now: float,
) -> None:
    """Record what a live reader reported, and note what may follow from it."""
    lease = ctx.settings.worker_lease
    missed = misses(heartbeat, lease) or ctx.soft_state.missed(reader, lease)
    moved = heartbeat.in_process != ctx.soft_state.in_process(reader)
    ctx.soft_state.on_reader_heartbeat(reader, heartbeat, now)
    if heartbeat.leaving:
        consumers.note_leaving(ctx, heartbeat, iteration, now)
        ctx.remove_reader(heartbeat.iteration, reader, ReaderStatus.LEFT, now)
        return
    consumers.note_end(ctx, heartbeat, reader, iteration)
    waits = heartbeat.iteration in ctx.waiting and not scheduler.waits_for_reports(ctx, iteration)
    if heartbeat.barrier is not None or missed or moved or waits:
        ctx.dirty[heartbeat.iteration] = None
    elif iteration.rounds is not None:
        rounds.on_report(ctx, heartbeat.iteration, iteration, now)


def on_disconnected(ctx: DecisionContext, event: ReaderDisconnected) -> None:
    """Note that a reader's stream ended: a restore of its job's state does not join it."""
    ctx.soft_state.connected.discard(event.session)


def _reader_id(
    ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord, now: float
) -> ReaderId | None:
    """Return the reader's id, a new one if it has none: committed before the answer.

    None means that a consumer has to wait for one.
    """
    if heartbeat.reader is not None:
        return heartbeat.reader
    reader = iteration.sessions.get(heartbeat.session)
    if reader is not None and iteration.readers[reader].status is ReaderStatus.LIVE:
        return reader
    if heartbeat.leaving:
        return NOBODY  # a reader without unacked elements leaves without a trace
    admission.check_reader(ctx, heartbeat.session)
    if iteration.rounds is not None:
        reader = consumers.join(ctx, heartbeat, iteration, now)
        ctx.dirty[heartbeat.iteration] = None
        return reader
    reader = ReaderId(ctx.state.next_id)
    who = (reader, heartbeat.session, heartbeat.process, heartbeat.trainer)
    ctx.commit(ReaderJoined(heartbeat.iteration, *who))
    ctx.dirty[heartbeat.iteration] = None
    return reader


def _too_late(ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Answer a reader of an iteration that is over: of its report, only the account matters."""
    try:
        consumers.check_end(heartbeat, iteration)
    except PenstockError as exc:
        _close_stream(ctx, heartbeat, exc)
        return
    reader = iteration.sessions.get(heartbeat.session)
    if reader is not None:
        known = iteration.readers[reader]
        if heartbeat.consumed > known.consumed or (heartbeat.leaving and not known.final):
            report, last = heartbeat.rounds, heartbeat.leaving
            taken = 0 if report is None or heartbeat.reader is None else report.taken
            what = (reader, heartbeat.consumed, last, taken)
            ctx.commit(ConsumptionReported(heartbeat.iteration, *what))
        (ctx.soft_state.connected.discard if heartbeat.leaving else ctx.soft_state.connected.add)(
            heartbeat.session
        )
    status = ReaderStatus.LEFT if heartbeat.leaving else ReaderStatus.LIVE
    ctx.notifications.answer(heartbeat, heartbeat.reader or NOBODY, status)


def _unknown(ctx: DecisionContext, heartbeat: ReaderHeartbeat) -> None:
    """Answer a reader of an iteration that is not known, or not any more."""
    if heartbeat.iteration == jobs.OVER or heartbeat.leaving:
        status = ReaderStatus.LEFT if heartbeat.leaving else ReaderStatus.LIVE
        ctx.notifications.answer(heartbeat, heartbeat.reader or NOBODY, status)
        return
    job = ctx.state.superseded.get(heartbeat.iteration)
    if job is not None:
        _close_stream(ctx, heartbeat, superseded(heartbeat.iteration, job))
        return
    error = UnknownIteration(
        f"iteration {heartbeat.iteration} is not known at {ctx.address}: it was forgotten because "
        "it had no reader, or the dispatcher was restarted and keeps no journal"
    )
    _close_stream(ctx, heartbeat, error)


def _close_stream(ctx: DecisionContext, heartbeat: ReaderHeartbeat, error: PenstockError) -> None:
    ctx.effects.append(CloseReaderStream(heartbeat.session, Failure.of(error)))

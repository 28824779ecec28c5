"""Passes without readers, and passes that others read before.

The dispatcher deletes a pass that nobody has read for long. A loop that joins a finished pass gets
no elements, and a loop that joins a pass that others left unfinished gets the rest of it. The reply
says so, because few users intend either.
"""

from __future__ import annotations

from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock_dispatcher.core import account, cache_members, jobs
from penstock_dispatcher.core.context import REUNION, DecisionContext
from penstock_dispatcher.core.fact_values import Unfinished
from penstock_dispatcher.core.facts import AttemptEnded
from penstock_dispatcher.core.records import IterationRecord, TaskRecord

FINISHED_KEPT = 10
"""For how many reader leases a finished iteration still answers its readers."""


def sweep(ctx: DecisionContext, now: float) -> None:
    """Delete, or have no worker run, iterations that have long had no reader."""
    for name, iteration in list(ctx.state.iterations.items()):
        if not _unread(ctx, name, iteration, now):
            continue
        if iteration.cached and not iteration.finished and cache_members.is_made(ctx, iteration):
            cache_members.finish(ctx, name, iteration, now)
            continue
        unfinished = _unfinished(ctx, iteration)
        if unfinished is None or unfinished.failure is not None or ctx.settings.gc_dynamic:
            ctx.forget(name, unfinished)
        else:
            for task_name, task in list(iteration.tasks.items()):
                _release(ctx, task_name, task)


def _unread(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> bool:
    limit, lease = ctx.settings.idle, ctx.settings.reader_lease
    if iteration.finished:
        limit = min(limit, FINISHED_KEPT * lease)
    elif iteration.live:
        return False
    elif iteration.broken:
        limit = min(limit, lease)
    return ctx.soft_state.silence(ctx.soft_state.idle_since[name], now) > limit


def _unfinished(ctx: DecisionContext, iteration: IterationRecord) -> Unfinished | None:
    """Return the record of a pass that would deliver elements again if it began again.

    Any reader may begin copies (OFF) again, and none a private pass.
    """
    private = ctx.state.jobs[iteration.job].private
    if iteration.finished or private or not iteration.divided:
        return None
    counted = sum(len(ctx.acked_by_any(n, task).ranges) for n, task in iteration.tasks.items())
    acked = iteration.before.acked + counted
    consumed = any(reader.consumed for reader in iteration.readers.values())
    if not (acked or consumed or iteration.in_doubt):
        return None
    failures = [task.failure for task in iteration.tasks.values() if task.failure is not None]
    return Unfinished(acked, failures[0] if failures else None)


def _release(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> None:
    """End the attempt of a task, once its worker reported all that it knows of expired readers."""
    if task.worker is not None and not task.expired_holders:
        ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))


LATE = 5
"""Heartbeat intervals of silence after which a reader counts as absent."""

NAMED = 4
"""The most readers, or trainers, that are named, those that read most; the others are counted."""


def read_before(
    ctx: DecisionContext, request: OpenIterationRequest, plan: jobs.Plan, now: float
) -> str:
    """Return how much of the pass that *request* joins was read before, and by which readers.

    That is nothing if it is new, is shared with readers that are there, or goes on from a saved
    state; nor if a trainer of a cached job gets what is in the window yet. If others already read
    a later pass of the job, the reader is late: it shares the job with them, and uses no old name.
    """
    if request.job_name is None or request.restore or plan.facts:
        return ""
    if _read_on(ctx, request, plan.job, now):
        return ""
    this = f"job {plan.job!r}, repetition {request.repetition}"
    iteration = ctx.state.iterations.get(plan.iteration)
    if iteration is None:
        return f"{this} is over: it was read before, and its readers are forgotten here"
    said = (
        _over_for(ctx, iteration, request.trainer or "")
        if iteration.cached
        else _left_behind(ctx, iteration, now)
    )
    return said and f"{this} {said}"


def _read_on(ctx: DecisionContext, request: OpenIterationRequest, job: str, now: float) -> bool:
    """Return whether somebody reads a later pass of *job*, or is about to."""
    opened = ctx.state.jobs[job].open.items()
    later = [name for number, name in opened if number > request.repetition]
    return any(
        _attended(ctx, ctx.state.iterations[name], now) or _was_opened_just_now(ctx, name, now)
        for name in later
    )


def _was_opened_just_now(ctx: DecisionContext, name: IterationId, now: float) -> bool:
    """Return whether the first reader of a pass is about to report."""
    since = ctx.soft_state.idle_since.get(name)
    waited = LATE * ctx.settings.refresh_interval
    return not ctx.state.iterations[name].readers and since is not None and now < since + waited


def _left_behind(ctx: DecisionContext, iteration: IterationRecord, now: float) -> str:
    """Return what readers had that are gone, or of a pass that is over."""
    acked = account.of(iteration, ctx.soft_state).acked
    if iteration.rounds is not None and not iteration.rounds.released:
        acked = 0  # too few for a round: they were left out
    if not acked:
        return ""
    if iteration.finished:
        return f"is over: {_elements(acked)} went to {_readers(ctx, iteration)}"
    if _attended(ctx, iteration, now):
        return ""
    return (
        f"was read before: {_elements(acked)} went to {_readers(ctx, iteration)}, and it has no "
        "reader now"
    )


def _over_for(ctx: DecisionContext, iteration: IterationRecord, trainer: str) -> str:
    """Return who had a cached pass, if *trainer* gets nothing of it."""
    if not iteration.finished and not cache_members.is_done(iteration, trainer):
        return ""
    trainers = account.of(iteration, ctx.soft_state).trainers
    had = [one for one in trainers if one.acked and (iteration.finished or one.trainer == trainer)]
    if not had:
        return ""
    had.sort(key=lambda one: -one.consumed)
    shown = [f"trainer {one.trainer!r} ({_elements(one.consumed)})" for one in had[:NAMED]]
    if len(had) > NAMED:
        shown.append(f"{len(had) - NAMED} more")
    whom = "" if iteration.finished else f" for trainer {trainer!r}"
    return f"is over{whom}: it was read by {', '.join(shown)}"


def _attended(ctx: DecisionContext, iteration: IterationRecord, now: float) -> bool:
    """Return whether a reader is there, or may come back after the dispatcher's own absence."""
    return any(_is_there(ctx, iteration, reader, now) for reader in iteration.live)


def _is_there(
    ctx: DecisionContext, iteration: IterationRecord, reader: ReaderId, now: float
) -> bool:
    liveness, session = ctx.soft_state.readers.get(reader), iteration.readers[reader].session
    if liveness is None or liveness.heartbeat.seq < 0:  # not heard since a restart
        return now < ctx.soft_state.since + REUNION
    silence = ctx.soft_state.silence(liveness.last_heard, now)
    return session in ctx.soft_state.connected and silence < LATE * ctx.settings.refresh_interval


def _readers(ctx: DecisionContext, iteration: IterationRecord) -> str:
    liveness_of = ctx.soft_state.readers
    consumed = {
        name: max(
            known.consumed, liveness_of[name].heartbeat.consumed if name in liveness_of else 0
        )
        for name, known in iteration.readers.items()
    }
    had = sorted((name for name in consumed if consumed[name]), key=lambda name: -consumed[name])
    shown = [
        iteration.describe_reader(name, f"{_elements(consumed[name])}{_end(iteration, name)}")
        for name in had[:NAMED]
    ]
    if len(had) > NAMED:
        shown.append(f"{len(had) - NAMED} more")
    return ", ".join(shown) or "readers that are not known any more"


def _end(iteration: IterationRecord, reader: ReaderId) -> str:
    match iteration.readers[reader].status:
        case ReaderStatus.EXPIRED:
            return ", expired"
        case ReaderStatus.LEFT:
            return ", left"
    return "" if iteration.finished else ", its connection is closed"


def _elements(count: int) -> str:
    return f"{count:,} element{'s' * (count != 1)}"

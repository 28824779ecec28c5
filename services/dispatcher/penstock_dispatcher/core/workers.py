"""Events of workers: heartbeats, checkpoints, split requests, lost connections, drains."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused
from penstock.protocol.control import (
    AttemptProgress,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.nearness import UNKNOWN_WORKER
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint, Failure, TaskId, WorkerId
from penstock_dispatcher.core import (
    admission,
    cache_members,
    hosting,
    ordered_tasks,
    placement,
    scheduler,
    skipped_errors,
    slots,
    strides,
    worker_entries,
)
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import (
    DrainHost,
    DrainWorker,
    ProbeWorker,
    ReplyToCall,
    SendCommand,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    CheckpointSaved,
    InDoubtResolved,
    TaskDone,
    TaskFailed,
    WorkerRegistered,
)
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.soft_state import WorkerDeparture
from penstock_dispatcher.core.split_provider import END

MOST_BEHIND = 3
"""How many streams of a worker may be late within a while, since others overtook them."""


def on_heartbeat(ctx: DecisionContext, heartbeat: WorkerHeartbeat, now: float) -> None:
    """Hear a worker; let it in if it is new."""
    ctx.counts.worker_heartbeats += 1
    if times := ctx.soft_state.times_behind(heartbeat, now):
        _on_behind(ctx, heartbeat, times)
        return
    try:
        admission.check_worker(ctx, heartbeat)
        entry = worker_entries.entry_for(ctx, heartbeat.worker, now)
    except PenstockError as exc:
        _refuse(ctx, heartbeat.worker, heartbeat.incarnation, exc)
        return
    known = ctx.state.workers.get(heartbeat.worker)
    if known is None or known.incarnation != heartbeat.incarnation or known.entry != entry:
        _register(ctx, heartbeat, entry)
    if ctx.soft_state.on_worker_heartbeat(heartbeat, now):
        ctx.mark_all_dirty()
    if (departure := ctx.soft_state.departures.get(heartbeat.worker)) is not None:
        _depart(ctx, heartbeat.worker, departure)
    ctx.notifications.on_worker_heartbeat(heartbeat, ctx.state.revision)
    hosting.on_reports(ctx, heartbeat, now)
    for name, progress in heartbeat.progress.items():
        _on_progress(ctx, heartbeat, name, progress, now)
    for name, attempt in heartbeat.ended:
        task = ctx.state.task(name)
        if task is not None and _runs(task, heartbeat.worker, attempt):
            _on_attempt_ended(ctx, heartbeat, name, task, now)


def _on_behind(ctx: DecisionContext, heartbeat: WorkerHeartbeat, times: int) -> None:
    """End what a worker runs of which there may be a copy, and refuse one that is surely one."""
    if _is_current(ctx, heartbeat.worker, heartbeat.incarnation):
        # Both may run the same attempts: so these are over, and whoever is ahead gets others.
        ctx.remove_worker(heartbeat.worker)
    if times > MOST_BEHIND:
        error = admission.copied(heartbeat)
        _refuse(ctx, heartbeat.worker, heartbeat.incarnation, error)


def on_disconnected(ctx: DecisionContext, event: WorkerDisconnected) -> None:
    """Note that a worker has no stream, and have it probed."""
    if _is_current(ctx, event.worker, event.incarnation):
        ctx.soft_state.workers[event.worker].connected = False
        ctx.effects.append(ProbeWorker(event.worker, event.incarnation))


def on_dead(ctx: DecisionContext, event: WorkerDead) -> None:
    """Remove a worker that is dead for certain, unless it has come back meanwhile."""
    if not _is_current(ctx, event.worker, event.incarnation):
        return
    if not ctx.soft_state.workers[event.worker].connected:
        ctx.remove_worker(event.worker)
        _reply_departed(ctx, event.worker)


def on_drain(ctx: DecisionContext, event: DrainWorker) -> None:
    """Have a worker drain, and reply when it reports that it does, or has ended."""
    if event.worker not in ctx.state.workers:
        known = ", ".join(sorted(ctx.state.workers)) or "none"
        error = Refused(f"worker {event.worker} is not registered; those that are: {known}")
        ctx.effects.append(ReplyToCall(event.call, Failure.of(error)))
        return
    incarnation = ctx.state.workers[event.worker].incarnation
    departure = ctx.soft_state.departures.setdefault(event.worker, WorkerDeparture(incarnation))
    departure.calls.append(event.call)
    _depart(ctx, event.worker, departure)
    ctx.notifications.workers[event.worker] = None
    ctx.mark_all_dirty()


def on_drain_host(ctx: DecisionContext, event: DrainHost) -> None:
    """Have the workers of a host drain, and reply at once which; none if there are no others.

    Then a training loop that is to stop at an agreed step still gets there.
    """
    workers, liveness_of = ctx.state.workers, ctx.soft_state.workers
    here = {name: one.profile.boot_id == event.boot_id for name, one in workers.items()}
    others = any(liveness_of[name].able for name, mine in here.items() if not mine)
    told = tuple(name for name, mine in here.items() if mine) if event.boot_id and others else ()
    for worker in told:
        incarnation = workers[worker].incarnation
        departure = ctx.soft_state.departures.setdefault(worker, WorkerDeparture(incarnation))
        _depart(ctx, worker, departure)
        ctx.notifications.workers[worker] = None
    if told:
        ctx.mark_all_dirty()
    ctx.effects.append(ReplyToCall(event.call, told))


def _depart(ctx: DecisionContext, worker: WorkerId, departure: WorkerDeparture) -> None:
    """Have a worker drain if this incarnation is to; reply to calls once it reports that."""
    if departure.incarnation != ctx.state.workers[worker].incarnation:
        _reply_departed(ctx, worker)
        return
    liveness = ctx.soft_state.workers[worker]
    liveness.drain_ordered = True
    if liveness.draining:
        ctx.effects += [ReplyToCall(call, None) for call in departure.calls]
        departure.calls.clear()


def _reply_departed(ctx: DecisionContext, worker: WorkerId) -> None:
    departure = ctx.soft_state.departures.pop(worker, None)
    if departure is not None:
        ctx.effects += [ReplyToCall(call, None) for call in departure.calls]


def on_split_request(ctx: DecisionContext, request: SplitRequest, now: float) -> None:
    """Reply with a split log from a position on; at its end, draw more."""
    ctx.counts.split_requests += 1
    task = ctx.state.task(request.task)
    if task is None or not _is_current(ctx, request.worker, request.incarnation):
        return
    if not _runs(task, request.worker, request.attempt):
        return
    splits: tuple[Split, ...] = (END,)
    if not _is_past_last_pass(ctx, task, request):
        try:
            admission.check_split_request(task, request)
        except PenstockError as exc:
            _refuse(ctx, request.worker, request.incarnation, exc)
            return
        if request.position == task.logs[request.provider].stop:
            if ctx.soft_state.workers[request.worker].leaving:
                return  # the next attempt of the task asks again
            if not slots.may_draw(ctx, request.task, task, now):
                return
            scheduler.grant_splits(ctx, request.task, request.provider, now)
        splits = task.logs[request.provider].after(request.position)
    grant = SplitGrant(request.task, request.attempt, request.provider, request.position, splits)
    ctx.effects.append(SendCommand(request.worker, request.incarnation, grant))


def _register(ctx: DecisionContext, heartbeat: WorkerHeartbeat, entry: int | None) -> None:
    if heartbeat.worker in ctx.state.workers:
        ctx.remove_worker(
            heartbeat.worker
        )  # another incarnation of it: the attempts of that one are over
    before = None if entry is None else worker_entries.holder(ctx.state, entry)
    if before is not None:
        ctx.remove_worker(before)  # it has no stream, and this one has
    if entry is not None:
        ctx.soft_state.vacant_since.pop(entry, None)
    profile = heartbeat.profile or UNKNOWN_WORKER
    ctx.commit(WorkerRegistered(heartbeat.worker, heartbeat.incarnation, entry, profile))
    ctx.mark_all_dirty()


def _is_current(ctx: DecisionContext, worker: WorkerId, incarnation: int) -> bool:
    known = ctx.state.workers.get(worker)
    return known is not None and known.incarnation == incarnation


def _runs(task: TaskRecord, worker: WorkerId, attempt: int) -> bool:
    return task.worker == worker and task.attempt == attempt


def _on_progress(
    ctx: DecisionContext,
    heartbeat: WorkerHeartbeat,
    name: TaskId,
    progress: AttemptProgress,
    now: float,
) -> None:
    task = ctx.state.task(name)
    if task is None or task.done:
        return
    iteration = ctx.state.iterations[task.iteration]
    if iteration.cached:
        cache_members.on_progress(ctx, heartbeat, name, task, progress)
    elif iteration.rounds is None:  # of these the log of rounds says what is acked
        ctx.soft_state.report_acks(name, progress.acked)
    if not _runs(task, heartbeat.worker, progress.attempt):
        return
    if iteration.ordered:
        ordered_tasks.note_progress(ctx, name, task.iteration, progress, now)
    ctx.soft_state.report_measures(task.iteration, name, progress, now)
    ctx.soft_state.progress[name] = progress
    placement.on_started(ctx, name, progress)
    skipped_errors.report(ctx, name, task, progress.errors)
    if skipped_errors.too_many(iteration):
        return  # or its end could come before its failure
    state = progress.checkpoint
    if (
        state is not None
        and state.number > task.checkpoint.number
        and _counts(ctx, name, task, state, progress)
    ):
        ctx.commit(CheckpointSaved(name, state))
    if task.expired_holders:
        _resolve_in_doubt(ctx, name, task, progress, heartbeat.revision)
    strides.note_progress(ctx, iteration, task)
    if name in iteration.tasks:  # or it is over by what is counted
        _note_end(ctx, name, iteration, task, progress)


def _note_end(
    ctx: DecisionContext,
    name: TaskId,
    iteration: IterationRecord,
    task: TaskRecord,
    progress: AttemptProgress,
) -> None:
    """Commit that a task failed, or that all of it is acked, if so."""
    grouped = iteration.rounds is not None
    if progress.failure is not None and task.failure is None:
        ctx.task_over(TaskFailed(name, progress.failure))
    elif grouped and (progress.ended or progress.failure is not None):
        ctx.dirty[task.iteration] = None
    elif iteration.cached:
        cache_members.finish_trainers(ctx, name, iteration, task)
    elif progress.done and not grouped and iteration.has_counted(task):
        ctx.task_over(TaskDone(name, ctx.acked(name, task), ctx.totals_of(name)))
    elif iteration.ordered:
        ordered_tasks.finish_if_read(ctx, name, task)


def _on_attempt_ended(
    ctx: DecisionContext, heartbeat: WorkerHeartbeat, name: TaskId, task: TaskRecord, now: float
) -> None:
    progress = heartbeat.progress.get(name)
    if progress is not None and progress.attempt == task.attempt and progress.lacking:
        placement.on_refused(ctx, heartbeat.worker, name, task, progress, now)
    else:
        ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))


def _counts(
    ctx: DecisionContext,
    name: TaskId,
    task: TaskRecord,
    state: Checkpoint,
    progress: AttemptProgress,
) -> bool:
    """Return whether all before a checkpoint is acked, and its splits are in the logs."""
    positions = zip(state.positions, task.logs, strict=False)
    floor, iteration = progress.acked.floor, ctx.state.iterations[task.iteration]
    if iteration.rounds is not None:
        floor = min(floor, task.acked.floor)
    if iteration.cached:
        least = cache_members.floor(ctx, name, iteration, task)
        floor = floor if least is None else min(floor, least)
    return state.number <= floor and all(at <= log.stop for at, log in positions)


def _resolve_in_doubt(
    ctx: DecisionContext, name: TaskId, task: TaskRecord, progress: AttemptProgress, revision: int
) -> None:
    """Resolve what is in doubt of readers that expired by *revision*: all is reported."""
    readers = tuple(reader for reader, since in task.expired_holders.items() if since <= revision)
    if readers:
        in_doubt = progress.in_doubt - task.in_doubt
        cache_members.record(ctx, name, task)
        ctx.commit(InDoubtResolved(name, readers, in_doubt, ctx.acked(name, task)))
        ctx.dirty[task.iteration] = None


def _refuse(ctx: DecisionContext, worker: WorkerId, incarnation: int, error: PenstockError) -> None:
    refused = WorkerRefused(Failure.of(error))
    ctx.effects.append(SendCommand(worker, incarnation, refused))


def _is_past_last_pass(ctx: DecisionContext, task: TaskRecord, request: SplitRequest) -> bool:
    if (
        not 0 <= request.provider < len(task.logs)
        or request.position < task.logs[request.provider].stop
    ):
        return False
    provider = ctx.state.iterations[task.iteration].providers[request.provider]
    return provider.over(task.ended[request.provider])

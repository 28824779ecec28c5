"""Workers that have no room for a runner now: which is asked instead, and when a task fails for it.

A worker tries for a while, and then ends the attempt by itself. All this is soft state: a
dispatcher that is started again asks all workers again.
"""

from __future__ import annotations

from penstock.errors import Overloaded
from penstock.protocol.control import AttemptProgress
from penstock.protocol.types import Failure, TaskId, WorkerId
from penstock_dispatcher.core import worker_entries
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded, TaskFailed
from penstock_dispatcher.core.reachability import ReadersReach
from penstock_dispatcher.core.records import TaskRecord
from penstock_dispatcher.core.soft_state import RunnerShortage

ROUNDS = 8
"""How often each worker may refuse a task, with nothing produced in between, until it fails.

Each time it has tried for some seconds: passes that others read may have ended by then.
"""

HESITATION = 30.0
"""Seconds for which a worker that refused a task gets others only if no other worker can."""


def on_refused(
    ctx: DecisionContext,
    worker: WorkerId,
    name: TaskId,
    task: TaskRecord,
    progress: AttemptProgress,
    now: float,
) -> None:
    """Have another worker go on with a task; fail the task when all refused it often enough.

    It stays with the last one then, as other failed tasks do.
    """
    liveness = ctx.soft_state.workers[worker]
    if task.failure is not None and not liveness.leaving:
        return
    liveness.short_at = now
    shortage = ctx.soft_state.shortages.setdefault(name, RunnerShortage(progress.head))
    shortage.refusals[worker] = shortage.refusals.get(worker, 0) + 1
    shortage.why[worker] = progress.lacking
    iteration = ctx.state.iterations[task.iteration]
    able = ctx.able(iteration)
    if iteration.shards:
        able = worker_entries.may_run(ctx, task, able, now)
    else:
        able = ReadersReach.of(ctx, iteration, now).useful(able)
    if able and task.failure is None and all(shortage.refusals.get(w, 0) >= ROUNDS for w in able):
        ctx.task_over(TaskFailed(name, _failure(shortage, able)))
    else:
        ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))


def on_started(ctx: DecisionContext, name: TaskId, progress: AttemptProgress) -> None:
    """Forget the refusals of a task that goes on."""
    shortage = ctx.soft_state.shortages.get(name)
    if shortage is not None and progress.head > shortage.head:
        del ctx.soft_state.shortages[name]


def refusals(ctx: DecisionContext, worker: WorkerId, name: TaskId) -> int:
    """Return how often a worker refused a task since an element of it was produced."""
    shortage = ctx.soft_state.shortages.get(name)
    return 0 if shortage is None else shortage.refusals.get(worker, 0)


def is_short(ctx: DecisionContext, worker: WorkerId, now: float) -> bool:
    """Return whether a worker refused a task lately."""
    at = ctx.soft_state.workers[worker].short_at
    return at is not None and now < at + HESITATION


def _failure(shortage: RunnerShortage, able: list[WorkerId]) -> Failure:
    who = "; ".join(f"worker {worker}: {shortage.why[worker]}" for worker in able)
    return Failure.of(Overloaded(f"no worker has room for a runner, tried {ROUNDS} times: {who}"))

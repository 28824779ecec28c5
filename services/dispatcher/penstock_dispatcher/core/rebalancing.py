"""Move tasks: a worker with less than its share takes over one of a worker that has more.

That is no more than ending an attempt: the next one starts on the idle worker. It costs what must
be made again, so only tasks move that have little of it; the others are looked at again later.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.types import IterationId, TaskId, WorkerId
from penstock_dispatcher.core import runner_shortage
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded
from penstock_dispatcher.core.records import IterationRecord, TaskRecord

CHEAP, PART = 64, 4
"""What a move may replay: so many elements, or one in so many of those produced."""


def rebalance(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    able: list[WorkerId],
    shares: Mapping[WorkerId, int],
    now: float,
) -> bool:
    """End the attempt that an idle worker should take over; return whether there is one."""
    if len(able) < 2 or len(iteration.tasks) < 2 or name in ctx.soft_state.barrier_since:
        return False
    if iteration.dynamic and not any(provider.left for provider in iteration.providers):
        return False  # the end is near
    loads: dict[WorkerId, list[TaskId]] = {worker: [] for worker in able}
    for task_name, task in iteration.tasks.items():
        if task.is_unassigned:
            return False
        if task.worker in loads and not task.done:
            loads[task.worker].append(task_name)
    heaviest = max(loads, key=lambda worker: len(loads[worker]) - shares[worker])
    idle = [
        worker
        for worker, load in loads.items()
        if len(load) < shares[worker] and not runner_shortage.is_short(ctx, worker, now)
    ]
    if len(loads[heaviest]) <= shares[heaviest] or not idle:
        return False
    resting = ctx.soft_state.resting  # what rests has the least to make again
    newest = loads[heaviest][::-1]
    first = sorted(newest, key=lambda task: task not in resting)
    for task_name in first if ctx.all_present(iteration, now) else ():
        task = iteration.tasks[task_name]
        if _is_cheap(ctx, task_name, task) and _is_welcome(ctx, task_name, task, idle):
            ctx.task_over(AttemptEnded(task_name, ctx.totals_of(task_name)))
            return True
    ctx.unbalanced.add(name)
    return False


def _is_welcome(ctx: DecisionContext, name: TaskId, task: TaskRecord, idle: list[WorkerId]) -> bool:
    """Return whether one of *idle* gets it then, and not again the worker that it leaves."""
    least = min(runner_shortage.refusals(ctx, worker, name) for worker in idle)
    return task.worker is not None and least <= runner_shortage.refusals(ctx, task.worker, name)


def _is_cheap(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> bool:
    progress = ctx.soft_state.progress.get(name)
    if task.failure is not None or task.expired_holders:
        return False
    if progress is not None and progress.ended and progress.trainers:
        return False  # its window is what is read, and would be made again
    made = max(task.head, 0 if progress is None else progress.head)
    return made - task.checkpoint.number <= max(CHEAP, made // PART)

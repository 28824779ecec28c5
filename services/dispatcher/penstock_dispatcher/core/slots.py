"""How many tasks of an iteration a worker runs at once: as many as it has slots, or its share.

Iterations that can fill slots share the slots of a worker equally, and each has at least one. Other
tasks there also use slots: one slot for each process that runs their functions, up to an equal
part, and at least one. If more tasks run than an iteration's share (their worker was lost, or
another job came), the surplus *rests*: such a task gets no split until another task has ended, so
nothing is made again. Readers still read the elements that it has made. Tasks that rest for long
take turns with the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.protocol.types import IterationId, TaskId, WorkerId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.soft_state import SoftState
from penstock_dispatcher.core.state import DispatcherState

TURN = 10.0
"""Seconds after which a resting task replaces another task."""

ORDERED = 2
"""How many tasks of a job that is read in order a worker makes at least: one begins while another
ends."""


def share(
    ctx: DecisionContext, worker: WorkerId, name: IterationId, iteration: IterationRecord
) -> int:
    """Return how many tasks of *iteration* a worker should run at once."""
    if not iteration.fills_slots:
        return 1
    mine = _divided(ctx, worker, name)
    return max(mine, ORDERED) if iteration.ordered else mine


def shares(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, workers: Iterable[WorkerId]
) -> dict[WorkerId, int]:
    """Return the share of each of *workers*, and take note: a larger one is looked at again."""
    found = {worker: share(ctx, worker, name, iteration) for worker in workers}
    if iteration.fills_slots:
        ctx.soft_state.shares[name] = found
    return found


def may_draw(ctx: DecisionContext, name: TaskId, task: TaskRecord, now: float) -> bool:
    """Return whether a task that asks for a split gets one now, or rests; it will ask again."""
    iteration, worker = ctx.state.iterations[task.iteration], task.worker
    if worker is None or not iteration.fills_slots or iteration.ordered:
        return True
    if not any(provider.left for provider in iteration.providers):
        return True  # it is told of the end
    mine, resting = share(ctx, worker, task.iteration, iteration), ctx.soft_state.resting
    if mine > ctx.soft_state.shares.get(task.iteration, {}).get(worker, 0):
        ctx.dirty[task.iteration] = None  # there may be room for a task more
    there = at_work(ctx.state, ctx.soft_state, worker, task.iteration)
    others = [other for other in there if other != name]
    if name not in resting:
        if len(others) >= mine:
            resting[name] = now
        return len(others) < mine
    if len(others) >= mine:
        if now < resting[name] + TURN:
            return False
        resting[others[0]] = now  # it rests behind the split that it has
    del resting[name]
    for number in range(len(iteration.providers)):
        ctx.soft_state.draw_rates.pop((name, number), None)  # it used up nothing meanwhile
    return True


def _divided(ctx: DecisionContext, worker: WorkerId, name: IterationId) -> int:
    """Return an iteration's part of a worker's slots; the first iterations get the remainder."""
    state, known = ctx.state, ctx.state.workers[worker]
    if known.slots == 1:
        return 1
    there, others = {name}, Counter[IterationId]()
    for task in known.tasks:
        owner = state.owners[task]
        iteration = state.iterations[owner]
        if owner not in there and _can_fill(iteration):
            there.add(owner)
        elif not iteration.fills_slots and iteration.live and iteration.readers:
            others[owner] += spread(ctx.soft_state, task)
        if len(there) == known.slots:
            return 1
    most = max(1, known.slots // (len(there) + len(others)))
    left = max(0, known.slots - sum(min(used, most) for used in others.values()))
    mine, over = divmod(left, len(there))
    return max(1, mine + (sorted(there).index(name) < over))


def _can_fill(iteration: IterationRecord) -> bool:
    """Return whether an iteration has work for more than the tasks that it has."""
    if not iteration.fills_slots or not iteration.live:
        return False
    return any(provider.left for provider in iteration.providers)


def at_work(
    state: DispatcherState, soft_state: SoftState, worker: WorkerId, iteration: IterationId
) -> list[TaskId]:
    """Return the tasks of an iteration that a worker makes."""
    tasks = state.workers[worker].tasks
    return [n for n in tasks if state.owners[n] == iteration and _is_made(soft_state, n)]


def slots_used(state: DispatcherState, soft_state: SoftState, worker: WorkerId) -> int:
    """Return how many slots of a worker are filled: by tasks, or by processes of one."""
    used = 0
    for name in state.workers[worker].tasks:
        if _is_made(soft_state, name):
            fills = state.iterations[state.owners[name]].fills_slots
            used += 1 if fills else _processes(soft_state, name)
    return used


def spread(soft_state: SoftState, name: TaskId) -> int:
    """Return over how many slots a task is spread that fills none: one, while it is made."""
    return max(1, _processes(soft_state, name)) if _is_made(soft_state, name) else 0


def _processes(soft_state: SoftState, name: TaskId) -> int:
    progress = soft_state.progress.get(name)
    return 0 if progress is None else progress.processes


def _is_made(soft_state: SoftState, name: TaskId) -> bool:
    progress = soft_state.progress.get(name)
    return name not in soft_state.resting and not (progress is not None and progress.ended)

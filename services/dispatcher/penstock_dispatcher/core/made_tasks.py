"""Which of its tasks a worker makes now: those that have not ended, and do not rest."""

from __future__ import annotations

from penstock.protocol.types import IterationId, TaskId, WorkerId
from penstock_dispatcher.core.soft_state import SoftState
from penstock_dispatcher.core.state import DispatcherState


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

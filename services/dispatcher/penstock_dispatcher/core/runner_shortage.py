"""Workers that have no room for a runner now: which is asked instead, and when a task fails for it.

A worker tries for a while, and then ends the attempt by itself. All this is soft state: a
dispatcher that is started again asks all workers again.
"""

from __future__ import annotations

from penstock.errors import Overloaded
from penstock.protocol.control import AttemptProgress
from penstock.protocol.types import Failure, TaskId, WorkerId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded, TaskFailed
from penstock_dispatcher.core.reachability import ReadersReach
from penstock_dispatcher.core.records import TaskRecord
from penstock_dispatcher.core.soft_state import RunnerShortage

ROUNDS = 8
"""How often each worker may turn a task down, with nothing made in between, until it fails.

Each time it has tried for some seconds: passes that others read may have ended by then.
"""

SHY = 30.0
"""Seconds for which a worker that turned down a task gets others only if nobody else takes them."""


def turned_down(
    desk: DecisionContext,
    worker: WorkerId,
    name: TaskId,
    task: TaskRecord,
    progress: AttemptProgress,
    now: float,
) -> None:
    """Have another worker go on with a task; when all turned it down often enough, it has failed.

    It stays with the last one then, as others do that have failed.
    """
    word = desk.heard.workers[worker]
    if task.failure is not None and not word.leaving:
        return
    word.short_at = now
    shortage = desk.heard.shortages.setdefault(name, RunnerShortage(progress.made))
    shortage.by[worker] = shortage.by.get(worker, 0) + 1
    shortage.why[worker] = progress.lacking
    iteration = desk.books.iterations[task.iteration]
    able = ReadersReach.of(desk, iteration).useful(desk.able(iteration))
    if able and task.failure is None and all(shortage.by.get(w, 0) >= ROUNDS for w in able):
        desk.task_over(TaskFailed(name, _failure(shortage, able)))
    else:
        desk.task_over(AttemptEnded(name, desk.spent(name)))


def relieved(desk: DecisionContext, name: TaskId, progress: AttemptProgress) -> None:
    """Know that a task goes on, if it does."""
    shortage = desk.heard.shortages.get(name)
    if shortage is not None and progress.made > shortage.made:
        del desk.heard.shortages[name]


def refusals(desk: DecisionContext, worker: WorkerId, name: TaskId) -> int:
    """Return how often a worker turned a task down since something was made of it."""
    shortage = desk.heard.shortages.get(name)
    return 0 if shortage is None else shortage.by.get(worker, 0)


def is_short(desk: DecisionContext, worker: WorkerId, now: float) -> bool:
    """Say whether a worker turned something down not long ago."""
    at = desk.heard.workers[worker].short_at
    return at is not None and now < at + SHY


def _failure(shortage: RunnerShortage, able: list[WorkerId]) -> Failure:
    who = "; ".join(f"worker {worker}: {shortage.why[worker]}" for worker in able)
    return Failure.of(Overloaded(f"no worker has room for a runner, tried {ROUNDS} times: {who}"))

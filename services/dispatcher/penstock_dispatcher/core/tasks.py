"""Deciding what follows: tasks are made, started, lost; a pass is finished."""

from __future__ import annotations

from penstock.numbers import IterationId, Standing, TaskId
from penstock_dispatcher.core import stats
from penstock_dispatcher.core.books import Iteration, Task
from penstock_dispatcher.core.desk import Desk
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    Finished,
    SplitsGranted,
    TaskLost,
    TaskMade,
)
from penstock_dispatcher.core.sources import Pace, split_size


def settle(desk: Desk, name: IterationId, now: float) -> None:
    """Write what follows for an iteration from what is fact."""
    iteration = desk.books.iterations.get(name)
    if iteration is None or iteration.finished:
        return
    if not iteration.live:
        if _abandoned(desk, iteration):
            desk.forget(name)
        return
    _make(desk, name, iteration, now)
    for task_name, task in iteration.tasks.items():
        if task.open and task.worker is None:
            _start(desk, task_name, task)
    if iteration.tasks and all(task.done for task in iteration.tasks.values()):
        desk.heard.accounts[name] = stats.account(iteration, desk.heard)
        desk.heard.forget(iteration.tasks, iteration.readers)
        desk.heard.idle_since[name] = now
        desk.write(Finished(name))


def draw(desk: Desk, name: TaskId, stream: int, now: float) -> None:
    """Give a task what comes next of *stream*."""
    task = desk.books.tasks[name]
    iteration = desk.books.iterations[task.iteration]
    source, pace = iteration.sources[stream], desk.heard.paces.get((name, stream))
    size = split_size(source, pace, desk.sharing(iteration), now)
    splits = source.draw(task.ended[stream], size)
    if not splits:
        return  # nothing was ever to be read
    desk.write(SplitsGranted(name, stream, splits))
    units = sum(map(len, splits))
    desk.counts.splits += 1
    if pace is None:
        desk.heard.paces[name, stream] = Pace(now, units)
    elif units:
        pace.granted(units, now)


def _make(desk: Desk, name: IterationId, iteration: Iteration, now: float) -> None:
    """Make as many tasks as there were ever workers at once; a late one needs something left."""
    workers = len(desk.able())
    while len(iteration.tasks) < workers and not iteration.broken:
        left = not iteration.dynamic or any(source.left for source in iteration.sources)
        if iteration.tasks and not left:
            return
        task = TaskId(desk.books.next_id)
        desk.write(TaskMade(task, name, len(iteration.tasks)))
        for stream in range(len(iteration.sources)):
            draw(desk, task, stream, now)  # so that the first order has something to do


def _start(desk: Desk, name: TaskId, task: Task) -> None:
    """Start a task's first attempt. One that has lost its worker cannot go on elsewhere."""
    if task.ran_on is not None:
        desk.write(TaskLost(name, task.ran_on))
        return
    able = desk.able()
    if not able:
        return
    siblings = [sibling.ran_on for sibling in desk.books.iterations[task.iteration].tasks.values()]
    worker = min(able, key=lambda w: (siblings.count(w), len(desk.books.workers[w].tasks)))
    desk.write(AttemptStarted(name, task.attempt + 1, worker, desk.taken(name), {}))


def _abandoned(desk: Desk, iteration: Iteration) -> bool:
    """Say whether nobody can come back: its one reader had no name for it, and left."""
    standings = {reader.standing for reader in iteration.readers.values()}
    return standings == {Standing.LEFT} and desk.books.jobs[iteration.job].private

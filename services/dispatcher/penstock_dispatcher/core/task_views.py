"""An iteration's tasks as its readers see them, and what of that changed since which revision.

Views of readers are made of durable state alone: at one revision it is the same in every life of
the dispatcher. So a reader says as of which revision it knows its tasks, and is told what changed
since then, whatever was lost on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from penstock.protocol.control import TaskView
from penstock.protocol.rounds import RoundEntry
from penstock.protocol.types import TaskId, WorkerId
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.state import DispatcherState

MOST_OVER = 1024
"""Tasks that are no more, at most, by which a reader that knows them is told so; one that knows
still older ones is told of all tasks."""


@dataclass(frozen=True, slots=True)
class IterationView:
    """An iteration's tasks as its readers see them."""

    tasks: Mapping[TaskId, TaskView]
    stalled: tuple[TaskId, ...]
    """The tasks that had a worker and wait for another one."""
    broken: bool
    entries: tuple[RoundEntry, ...] = ()
    """The entries of rounds, from the floor on."""
    since: int = 0
    """The revision from which on changes are known."""
    newest: int = 0
    """That of the newest change."""
    changed: Mapping[TaskId, int] = field(default_factory=dict)
    """The revision as of which each task is as it is."""
    over: Mapping[TaskId, int] = field(default_factory=dict)
    """As of which revision tasks are no more."""


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """The tasks in a reader's view: all, or, with *since*, those that changed or are *over*."""

    tasks: Mapping[TaskId, TaskView]
    since: int | None = None
    over: tuple[TaskId, ...] = ()


Hidden: TypeAlias = tuple[TaskId, ...]
"""Tasks that a reader does not see, and may have seen before."""


def changes(view: IterationView, known: int, revision: int, hidden: Hidden = ()) -> TaskChanges:
    """Return the changes, at *revision*, for a reader that knows its tasks as of *known*."""
    tasks, unseen = view.tasks, frozenset(hidden)
    if not view.since <= known <= revision:
        return TaskChanges({n: seen for n, seen in tasks.items() if n not in unseen})
    if known >= view.newest:
        return TaskChanges({}, known, hidden)
    new = {n: tasks[n] for n, at in view.changed.items() if at > known and n not in unseen}
    over = [name for name, at in view.over.items() if at > known]
    return TaskChanges(new, known, (*over, *hidden))


def draw(
    state: DispatcherState, iteration: IterationRecord, before: IterationView | None
) -> IterationView:
    """Return what readers of an iteration see now, and what of it is new since *before*."""
    rounds = iteration.rounds
    tasks = {
        name: TaskView(
            task.attempt,
            task.worker,
            task.failure,
            _incarnation(state, task.worker),
            0 if rounds is None else rounds.tasks[name].released,
            0 if rounds is None else task.acked.floor,
            None if task.worker is None else state.workers[task.worker].profile,
        )
        for name, task in iteration.tasks.items()
        if (task.attempt or iteration.ordered) and not task.done
    }
    stalled = tuple(name for name, task in tasks.items() if task.worker is None)
    entries = () if rounds is None else tuple(rounds.entries())
    now = state.revision
    if before is None:
        changed = dict.fromkeys(tasks, now)
        return IterationView(tasks, stalled, iteration.broken, entries, now, now, changed)
    old, since, newest = before.tasks, before.since, before.newest
    changed = {
        name: before.changed[name] if name in old and old[name] == seen else now
        for name, seen in tasks.items()
    }
    over = {name: at for name, at in before.over.items() if name not in tasks}
    over.update((name, now) for name in old if name not in tasks)
    if len(over) > MOST_OVER:
        forgotten = list(islice(over, len(over) - MOST_OVER // 2))
        since = max(since, *(over.pop(name) for name in forgotten))
    if tasks != old:
        newest = now
    return IterationView(tasks, stalled, iteration.broken, entries, since, newest, changed, over)


def _incarnation(state: DispatcherState, worker: WorkerId | None) -> int:
    return 0 if worker is None else state.workers[worker].incarnation

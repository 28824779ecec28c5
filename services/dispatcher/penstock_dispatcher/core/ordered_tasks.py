"""The tasks of a job that is read in order: each makes one split, and comes in the splits' order.

Readers take the elements of a task when those of all tasks before it are with readers. So any
number of workers gives one order, and all that is promised of a task (`core.scheduler`) is promised
of a split. A limit on the tasks beyond the one that is read bounds the elements made ahead.
"""

from __future__ import annotations

from math import inf

from penstock.protocol.control import AttemptProgress
from penstock.protocol.types import IterationId, TaskId, WorkerId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import SplitsGranted, TaskCreated, TaskDone
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.split_provider import SplitProvider

AHEAD = 2
"""How many tasks there are for each one at work of which readers do not have everything."""

OPEN = 1024
"""How many there are for each worker in all: operators behind readers may have some of each."""

OPEN_OF_MIXTURE = 4
"""How many there are for each one at work of a mixture: new weights hold after the last of them."""

GRAIN = 0.5
"""About how many seconds of a worker's time a task takes: its start and end cost milliseconds."""

LEAST = 0.05
"""Near the end tasks take at least this many seconds."""

FIRST_SHARE, FIRST_MOST, GROWTH = 32, 256, 4


def create(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    workers: int,
    wanted: int,
    now: float,
) -> None:
    """Create the tasks that *workers* can begin now with their splits, *wanted* of them at work."""
    provider, here = iteration.providers[0], (workers, wanted)
    ctx.soft_state.full.discard(name)
    while _is_wanted(ctx, iteration, *here) and (provider.left or not iteration.next_task):
        task = TaskId(ctx.state.next_id)
        ctx.commit(TaskCreated(task, name, iteration.next_task))
        splits = provider.draw_last(_size(ctx, name, iteration, provider, wanted))
        ctx.commit(SplitsGranted(task, 0, splits))
        ctx.counts.splits += 1
        ctx.soft_state.paces[name].begin(task, sum(map(len, splits)), now)
    if _is_full(iteration, *here):
        ctx.soft_state.full.add(name)


def more_follow(ctx: DecisionContext, name: IterationId, iteration: IterationRecord) -> bool:
    """Return whether tasks follow, so that readers' operators need not make do with what there is.

    Where there are as many as may be, the next ones follow when operators let go of some.
    """
    if not iteration.ordered or iteration.broken or name in ctx.soft_state.full:
        return False
    return iteration.providers[0].left


class Starts:
    """Which tasks without a worker get one now: *wanted* are made at once.

    One that is before all of these gets one in any case: they may wait until readers have had it.
    """

    def __init__(self, ctx: DecisionContext, iteration: IterationRecord, wanted: int) -> None:
        tasks = iteration.tasks.items()
        made = [name for name, t in tasks if t.worker is not None and not _ended(ctx, name)]
        self._room = max(1, wanted) - len(made)
        self._first = min(made, default=inf)

    def may(self, name: TaskId) -> bool:
        """Return whether a task gets a worker."""
        return self._room > 0 or name < self._first

    def note(self, name: TaskId) -> None:
        """Note that it got one."""
        self._room, self._first = self._room - 1, min(self._first, name)


def note_progress(
    ctx: DecisionContext,
    name: TaskId,
    iteration: IterationId,
    progress: AttemptProgress,
    now: float,
) -> None:
    """Note that a task was made, or that readers have all of it: there is room for others."""
    before = ctx.soft_state.progress.get(name)
    if progress.ended:
        ctx.soft_state.paces[iteration].end(name, now)
    if before is None or (before.ended, before.all_sent) != (progress.ended, progress.all_sent):
        ctx.dirty[iteration] = None


def finish_if_read(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> None:
    """Commit that a task is done, if all of it was made and readers have acked it.

    Its worker says so too, but may not know: of readers that cannot reach it, it hears no ack.
    """
    progress = ctx.soft_state.progress.get(name)
    if progress is None or not progress.ended or task.failure is not None:
        return
    if not ctx.state.iterations[task.iteration].has_counted(task):
        return  # one without elements may be over before those that come before it
    if task.expired_holders:
        return  # its worker has not yet said which of their elements were made again
    if progress.attempt == task.attempt and ctx.acked(name, task).floor >= progress.head:
        ctx.task_over(TaskDone(name, ctx.acked(name, task), ctx.totals_of(name)))


def busy(ctx: DecisionContext, iteration: IterationRecord) -> list[WorkerId]:
    """Return the workers of tasks that are being made."""
    tasks = iteration.tasks.items()
    return [t.worker for name, t in tasks if t.worker is not None and not _ended(ctx, name)]


def _is_wanted(ctx: DecisionContext, iteration: IterationRecord, workers: int, wanted: int) -> bool:
    if iteration.broken or _is_full(iteration, workers, wanted):
        return False
    at_work = sum(not _ended(ctx, name) for name in iteration.tasks)
    unread = sum(not _all_sent(ctx, name) for name in iteration.tasks)
    return at_work < wanted and unread < AHEAD * wanted


def _is_full(iteration: IterationRecord, workers: int, wanted: int) -> bool:
    """Return whether readers must be done with a task before there is another one."""
    is_mixture = any(provider.mixture is not None for provider in iteration.providers)
    most = OPEN_OF_MIXTURE * max(wanted, workers) if is_mixture else OPEN * workers
    return len(iteration.tasks) >= most


def _ended(ctx: DecisionContext, name: TaskId) -> bool:
    progress = ctx.soft_state.progress.get(name)
    return progress is not None and progress.ended


def _all_sent(ctx: DecisionContext, name: TaskId) -> bool:
    progress = ctx.soft_state.progress.get(name)
    return progress is not None and progress.all_sent


def _size(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    provider: SplitProvider,
    wanted: int,
) -> int:
    """Return how many units the next task has: of the pipeline alone where chance depends on it."""
    spec = ctx.state.datasets[iteration.parameters.dataset].providers[0]
    if provider.files is not None:
        return 1
    if spec.grid:
        return spec.grid
    tasks, pace = max(1, wanted), ctx.soft_state.paces[name]
    share = provider.remaining // (2 * tasks)
    if not pace.rate:
        return max(1, min(share, provider.units // (tasks * FIRST_SHARE), FIRST_MOST))
    most = min(int(pace.rate * GRAIN), GROWTH * pace.last)
    return max(1, min(most, max(share, int(pace.rate * LEAST))))

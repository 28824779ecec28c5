"""Tasks whose readers cannot reach the worker: they move to another worker if that helps.

A worker that no reader reaches gets nothing if there is another. One that only some do not reach
keeps its tasks: any reader may read any task, so these read others; unless they read in rounds, of
which each is for all of them, or in order, where each has to hear of every task. But a reader that
reaches no task at all gets one, if that leaves no other reader without. And what a reader requeued,
of a task whose worker it cannot tell, is kept there for it: the task's next attempt gives it to
others. Each move makes more readers served than before, or more elements free, so nothing goes to
and fro.

If another reader on the same host reads from a worker, that worker is slow and not unreachable: the
report then counts only after a much longer time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.types import ReaderId, TaskId, WorkerId
from penstock_dispatcher.core import readable
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import ReportUncaught
from penstock_dispatcher.core.facts import AttemptEnded
from penstock_dispatcher.core.records import IterationRecord, TaskRecord

SLOW = 6.0
"""A worker may leave a reader without an answer for six leases while others on the reader's host
read from it. It may not do so forever: a fault can concern one process only."""

Running: TypeAlias = tuple[TaskId, TaskRecord, WorkerId]
"""A task, and the worker that runs it."""

NO_READERS = frozenset[ReaderId]()


@dataclass(frozen=True, slots=True)
class ReadersReach:
    """Which of the *live* readers of an iteration cannot reach each worker."""

    live: tuple[ReaderId, ...]
    missed: Mapping[WorkerId, frozenset[ReaderId]]
    all_needed: bool = False
    """Whether a worker is of use to readers only if all reach it: they read in rounds, or in order,
    where none goes beyond a task of which it does not hear that others have all of it."""
    barred: frozenset[WorkerId] = frozenset()
    """Workers with tasks that no reader may read."""

    @classmethod
    def of(cls, ctx: DecisionContext, iteration: IterationRecord, now: float) -> ReadersReach:
        """Return what the readers' newest heartbeats say; readers without one reach all workers."""
        grouped, silent = iteration.rounds is not None, ctx.soft_state.silent
        live, missed = tuple(iteration.live), dict[WorkerId, frozenset[ReaderId]]()
        for reader in live:
            liveness = ctx.soft_state.readers.get(reader)
            if liveness is None or not liveness.heartbeat.unreachable:
                continue
            if grouped and reader in silent:
                continue  # others wait for it, wherever tasks are
            for worker, report in liveness.heartbeat.unreachable.items():
                known = ctx.state.workers.get(worker)
                if known is None or known.incarnation != report.incarnation:
                    continue
                if _counts(ctx, liveness.heartbeat, worker, report.seconds, now):
                    missed[worker] = missed.get(worker, NO_READERS) | {reader}
        barred = readable.barred(ctx.state, ctx.soft_state, iteration, places(iteration))
        all_needed = grouped or iteration.ordered
        return cls(live, missed, all_needed, frozenset(barred) if live else frozenset())

    def unreached(self, worker: WorkerId) -> bool:
        """Return whether *worker* is of no use to the readers, as they cannot reach it."""
        if worker in self.barred:
            return True
        if self.all_needed:
            return worker in self.missed
        return len(self.missed.get(worker, ())) == len(self.live) > 0

    def unserved(self, places: Iterable[WorkerId]) -> frozenset[ReaderId]:
        """Return the readers that reach none of *places*."""
        missing = frozenset(self.live)
        for worker in dict.fromkeys(places):
            missing &= self.missed.get(worker, NO_READERS)
        return missing

    def useful(self, workers: list[WorkerId]) -> list[WorkerId]:
        """Return those of *workers* that some reader reaches; all, if none does."""
        return [worker for worker in workers if not self.unreached(worker)] or workers


def _counts(
    ctx: DecisionContext, reader: ReaderHeartbeat, worker: WorkerId, seconds: float, now: float
) -> bool:
    """Return whether *worker* is unreachable for a reader that has tried for *seconds* seconds."""
    lease = ctx.settings.worker_lease
    if not lease <= seconds < SLOW * lease:
        return seconds >= lease
    return not ctx.soft_state.heard_nearby(now).on_host_of(reader, worker)


def places(iteration: IterationRecord) -> list[WorkerId]:
    """Return the workers of tasks of *iteration* that are not done."""
    return [task.worker for task in iteration.tasks.values() if task.worker is not None]


def move(
    ctx: DecisionContext,
    iteration: IterationRecord,
    able: Collection[WorkerId],
    reach: ReadersReach,
    now: float,
) -> bool:
    """End attempts that should move to workers that readers reach; return whether any ended."""
    needed = reach.missed or reach.barred
    if reach.missed and iteration.rounds is None and not iteration.cached:
        _tell_acks(ctx, iteration, reach)
    moved = _moved(ctx, iteration, able, reach, now) if needed else []
    _end(ctx, moved, reach)
    return bool(moved)


def _tell_acks(ctx: DecisionContext, iteration: IterationRecord, reach: ReadersReach) -> None:
    """Have workers told of acks that a reader can report to the dispatcher only."""
    for name, task in iteration.tasks.items():
        if task.worker is None or task.worker not in reach.missed:
            continue
        progress = ctx.soft_state.progress.get(name)
        if progress is not None and ctx.acked(name, task) != progress.acked:
            ctx.notifications.workers[task.worker] = None


def _moved(
    ctx: DecisionContext,
    iteration: IterationRecord,
    able: Collection[WorkerId],
    reach: ReadersReach,
    now: float,
) -> list[Running]:
    running = [
        (name, task, task.worker)
        for name, task in iteration.tasks.items()
        if task.worker is not None and task.failure is None and not task.expired_holders
    ]
    lost = [one for one in running if reach.unreached(one[2])]
    if lost and not all(map(reach.unreached, able)):
        return lost
    waits = reach.all_needed or any(task.is_unassigned for task in iteration.tasks.values())
    if waits or not ctx.all_present(iteration, now):
        return []
    kept = [one for one in running if _keeps_requeued(ctx, one, reach)]
    return kept or _better_elsewhere(running, places(iteration), able, reach)


def _better_elsewhere(
    running: Iterable[Running],
    now_there: list[WorkerId],
    able: Collection[WorkerId],
    reach: ReadersReach,
) -> list[Running]:
    """Return a task that would serve more readers at another worker, if there is one."""
    unserved = len(reach.unserved(now_there)) if now_there else 0
    looked_at = set[WorkerId]()  # all tasks of one worker leave the same ones behind
    for one in running if unserved else ():
        if one[2] in looked_at:
            continue
        looked_at.add(one[2])
        others = now_there.copy()
        others.remove(one[2])
        left = reach.unserved(others)
        if any(len(left & reach.missed.get(worker, NO_READERS)) < unserved for worker in able):
            return [one]
    return []


def _keeps_requeued(ctx: DecisionContext, running: Running, reach: ReadersReach) -> bool:
    """Return whether a worker keeps elements for a reader that requeued them, unheard there."""
    name, task, worker = running
    for reader in reach.missed.get(worker, ()):
        report = ctx.soft_state.readers[reader].heartbeat.reports.get(name)
        kept = task.unacked.get(reader)
        if report and kept and kept - ctx.acked(name, task).ranges - report.buffered:
            return True
    return False


def _end(ctx: DecisionContext, moved: Iterable[Running], reach: ReadersReach) -> None:
    for name, _, worker in moved:
        count = len(reach.missed.get(worker, ()))
        who = f"{count} of {len(reach.live)} readers cannot reach"
        if worker in reach.barred:
            who = "no reader may read"
        known = ctx.state.iterations[ctx.state.owners[name]]
        task = f"{known.describe_task(name)} of {known.title}"
        ctx.effects.append(ReportUncaught(f"{task} leaves worker {worker}, which {who}"))
        ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))

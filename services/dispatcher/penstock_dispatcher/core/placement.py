"""Which worker gets a task, which task moves, and workers without room for a runner.

A new task goes to the worker whose share of the iteration's tasks is filled least. `rebalance`
moves a task from a worker with more than its share to one with less: it ends the attempt, and the
next one starts on the idle worker. The dispatcher moves only a task of which little must be made
again. If a worker has no room for a runner, it tries for a while, and then ends the attempt. The
dispatcher does not write these refusals down: after a restart it asks all workers again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeAlias

from penstock.errors import Overloaded
from penstock.protocol.control import AttemptProgress
from penstock.protocol.types import Failure, IterationId, TaskId, WorkerId
from penstock_dispatcher.core import ordered_tasks, worker_entries
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded, TaskFailed
from penstock_dispatcher.core.reachability import ReadersReach, places
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.soft_state import RunnerShortage

Cost: TypeAlias = tuple[bool, float, float, float]


class Placement:
    """How many tasks of an iteration each worker has, as they are placed one after the other.

    *shares* says how many it should have.
    """

    def __init__(
        self,
        ctx: DecisionContext,
        iteration: IterationRecord,
        shares: Mapping[WorkerId, int],
        reach: ReadersReach,
        now: float,
    ) -> None:
        busy = ordered_tasks.busy(ctx, iteration) if iteration.ordered else places(iteration)
        tasks = iteration.tasks.values()
        self._ctx, self._iteration, self._reach, self._now = ctx, iteration, reach, now
        self._shares = shares
        self._running = Counter(busy)
        """How many tasks are made by each."""
        self._ran = Counter(t.ran_on for t in tasks if t.ran_on and not t.is_unassigned)
        """How many of those that are not waiting were there last."""
        self._able: Sequence[WorkerId] = ()
        self._queue: list[tuple[Cost, int]] = []
        """The places in *able*, by cost: as long as that is the same for all tasks."""

    def choose(self, name: TaskId, able: Sequence[WorkerId]) -> WorkerId:
        """Return the one of *able* that should run a task; it has one more then."""
        if self._reach.missed or name in self._ctx.soft_state.shortages:
            self._able, worker = (), self._by_task(name, able)
            self._count(worker)
            return worker
        if able is not self._able:
            self._able = able
            self._queue = [(self._cost(worker), i) for i, worker in enumerate(able)]
            heapify(self._queue)
        place = self._queue[0][1]
        worker = able[place]
        self._count(worker)
        short, running, ran, load = self._cost(worker)
        load += 1 / self._ctx.state.workers[worker].slots  # it is assigned after this
        heapreplace(self._queue, ((short, running, ran, load), place))
        return worker

    def _by_task(self, name: TaskId, able: Sequence[WorkerId]) -> WorkerId:
        """Return the best for this task: what refused it is so last, what readers reach first."""
        reach, there = self._reach, places(self._iteration)

        def cost(worker: WorkerId) -> tuple[bool, bool, int, int, Cost]:
            unserved = len(reach.unserved([*there, worker])) if reach.missed else 0
            refused = refusals(self._ctx, worker, name)
            whole = self._cost(worker)
            return whole[0], refused >= ROUNDS, unserved, refused, whole

        return min(able, key=cost)

    def _cost(self, worker: WorkerId) -> Cost:
        # What runs there counts first: else what leaves a busy worker for an idle one comes back.
        known, share = self._ctx.state.workers[worker], self._shares.get(worker, 1)
        short = is_short(self._ctx, worker, self._now)
        running, ran = (self._running[worker] + 1) / share, self._ran[worker] / share
        return short, running, ran, len(known.tasks) / known.slots

    def _count(self, worker: WorkerId) -> None:
        self._running[worker] += 1
        self._ran[worker] += 1


CHEAP, PART = 64, 4
"""A move may replay at most 64 elements, or one in four of those produced."""


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
        if len(load) < shares[worker] and not is_short(ctx, worker, now)
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
    least = min(refusals(ctx, worker, name) for worker in idle)
    return task.worker is not None and least <= refusals(ctx, task.worker, name)


def _is_cheap(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> bool:
    progress = ctx.soft_state.progress.get(name)
    if task.failure is not None or task.expired_holders:
        return False
    if progress is not None and progress.ended and progress.trainers:
        return False  # its window is what is read, and would be made again
    made = max(task.head, 0 if progress is None else progress.head)
    return made - task.checkpoint.number <= max(CHEAP, made // PART)


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
    """Have another worker continue a task; fail the task when all refused it often enough.

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
    """Forget the refusals of a task that makes progress."""
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

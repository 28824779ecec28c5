"""Which worker gets a task: the one whose share of the iteration's tasks is filled least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeAlias

from penstock.protocol.types import TaskId, WorkerId
from penstock_dispatcher.core import ordered_tasks, runner_shortage
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.reachability import ReadersReach, places
from penstock_dispatcher.core.records import IterationRecord

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
            refusals = runner_shortage.refusals(self._ctx, worker, name)
            whole = self._cost(worker)
            return whole[0], refusals >= runner_shortage.ROUNDS, unserved, refusals, whole

        return min(able, key=cost)

    def _cost(self, worker: WorkerId) -> Cost:
        # What runs there counts first: else what leaves a busy worker for an idle one comes back.
        known, share = self._ctx.state.workers[worker], self._shares.get(worker, 1)
        short = runner_shortage.is_short(self._ctx, worker, self._now)
        running, ran = (self._running[worker] + 1) / share, self._ran[worker] / share
        return short, running, ran, len(known.tasks) / known.slots

    def _count(self, worker: WorkerId) -> None:
        self._running[worker] += 1
        self._ran[worker] += 1

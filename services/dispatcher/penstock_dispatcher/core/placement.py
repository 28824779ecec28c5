"""Which worker gets a task: the one whose share of the iteration's tasks is filled least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.protocol.types import TaskId, WorkerId
from penstock_dispatcher.core import ordered_tasks, runner_shortage
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.reachability import ReadersReach, places
from penstock_dispatcher.core.records import IterationRecord


@dataclass(frozen=True, slots=True)
class Placement:
    """How many tasks of an iteration each worker has, as they are placed one after the other."""

    shares: Mapping[WorkerId, int]
    running: Counter[WorkerId] = field(default_factory=Counter)
    """How many tasks are made by each."""
    ran: Counter[WorkerId] = field(default_factory=Counter)
    """How many of those that are not waiting were there last."""

    @classmethod
    def of(
        cls, ctx: DecisionContext, iteration: IterationRecord, shares: Mapping[WorkerId, int]
    ) -> Placement:
        """Return where the tasks of *iteration* are."""
        busy = ordered_tasks.busy(ctx, iteration) if iteration.ordered else places(iteration)
        tasks = iteration.tasks.values()
        ran = Counter(t.ran_on for t in tasks if t.ran_on is not None and not t.is_unassigned)
        return cls(shares, Counter(busy), ran)

    def choose(
        self,
        ctx: DecisionContext,
        iteration: IterationRecord,
        name: TaskId,
        able: Collection[WorkerId],
        reach: ReadersReach,
        now: float,
    ) -> WorkerId:
        """Return the one of *able* that should run a task, and count it there."""
        there = places(iteration) if reach.missed else []

        def cost(worker: WorkerId) -> tuple[bool, bool, int, int, float, float, float]:
            unserved = len(reach.unserved([*there, worker])) if reach.missed else 0
            short = runner_shortage.is_short(ctx, worker, now)
            refusals = runner_shortage.refusals(ctx, worker, name)
            totals = refusals >= runner_shortage.ROUNDS
            # What runs there counts first: else what leaves a busy worker for an idle one comes
            # back.
            share = self.shares.get(worker, 1)
            running, ran = (self.running[worker] + 1) / share, self.ran[worker] / share
            known = ctx.state.workers[worker]
            load = len(known.tasks) / known.slots
            return short, totals, unserved, refusals, running, ran, load

        worker = min(able, key=cost)
        self.running[worker] += 1
        self.ran[worker] += 1
        return worker

"""A mesh whose one job is read in order, each split a task of its own: tormented as others are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import replace
from random import Random

from penstock.protocol.control import OpenIterationRequest
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import IterationId, Mode, ReaderId, TaskId
from penstock_dispatcher.core.facts import Fact, ReaderJoined
from penstock_dispatcher.core.state import DispatcherState
from simulation.ledger import Key, Ledger, Saved
from simulation.mesh import Mesh, judged
from simulation.pipeline import Element
from simulation.plan import Plan
from simulation.world import LawBroken


class OrderedMesh(Mesh):
    """One schedule. In two of three, splits have one size; a single reader gets all in order."""

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        super().__init__(plan, trace=trace)
        grid = Random(plan.seed).choice((0, 1, 3))
        self.streams = (SplitProviderSpec(("",), plan.size, None, 1, grid=grid),)
        straight = plan.readers == 1 and not any(one.has_operators for one in plan.habits)
        self.ledger = self.witness = _InOrder(self, plan.origin, straight=straight)

    @property
    def mode(self) -> Mode:
        """See `Mesh.mode`."""
        return Mode.DYNAMIC

    def request(self, restore: bytes) -> OpenIterationRequest:
        """See `Mesh.request`."""
        return replace(super().request(restore), ordered=True)


class _InOrder(Ledger):
    """Holds against the laws, too, in which order a reader hands elements out."""

    def __init__(self, world: OrderedMesh, origin: Saved | None, *, straight: bool) -> None:
        super().__init__(world, origin)
        self._straight = straight
        self._last: dict[tuple[str, ReaderId | None, IterationId], Key] = defaultdict(
            lambda: (-1, -1)
        )
        self._readers: dict[IterationId, set[ReaderId]] = defaultdict(set)
        self._next_task: dict[IterationId, int] = {}

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """See `Ledger.consume`."""
        super().consume(session, reader, task, number, element)
        iteration, index = self.tasks[task]
        who = session, reader, iteration
        # What a reader had that crashed, or was silent for too long, comes late to the next one.
        alone = self._straight and len(self._readers[iteration]) == 1
        if alone and (index, number) < self._last[who]:
            raise LawBroken(f"order: {(index, number)} comes behind {self._last[who]}")
        self._last[who] = index, number

    def decided(self, fact: Fact) -> None:
        """See `Ledger.decided`."""
        if isinstance(fact, ReaderJoined):
            self._readers[fact.iteration].add(fact.reader)
        super().decided(fact)

    def restarted(self, state: DispatcherState) -> None:
        """See `Ledger.restarted`: tasks that are done are in the state no more."""
        self._next_task = {name: one.next_task for name, one in state.iterations.items()}
        super().restarted(state)

    def _void(self, iteration: IterationId, found: AbstractSet[TaskId]) -> None:
        known = self._next_task[iteration]
        done = {t for t, (of, index) in self.tasks.items() if of == iteration and index < known}
        super()._void(iteration, found | done)


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with other counts.

    Raises:
        LawBroken: when it is not what it should be.
    """
    plan = replace(Plan.draw(seed), dynamic=True, passes=1)
    world = OrderedMesh(plan, trace=trace).run()
    stats = world.stats
    if world.ledger.saved is not None:
        later = replace(Plan.draw(seed, (plan, world.ledger.saved)), dynamic=True, passes=1)
        stats += OrderedMesh(later, trace=trace).run().stats
    return stats


def judge(seed: int, *, trace: bool = False) -> tuple[str, Counter[str]]:
    """Run one schedule; return the law that it breaks, if any, and what happened in it."""
    return judged(run, seed, trace=trace)

"""A mesh whose one job is read in order, each split a task of its own: tormented as others are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from random import Random

from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import IterationId, Mode, ReaderId, TaskId
from penstock_dispatcher.core.facts import Fact, IterationRestored, ReaderJoined, SplitsGranted
from penstock_dispatcher.core.state import DispatcherState
from simulation.ledger import Key, Ledger
from simulation.mesh import Mesh, run_and_restore
from simulation.pipeline import Element
from simulation.plan import Plan
from simulation.reader import SimReader
from simulation.world import LawBroken, Process
from tests.openings import changed

NONE: Mapping[int, int] = {}


class OrderedMesh(Mesh):
    """One schedule. In two of three, splits have one size.

    With *consumers* each of these gets every so many-th element. Then, or if there is one reader,
    one that is the only one of its kind gets all in order.
    """

    def __init__(
        self,
        plan: Plan,
        firsts: Mapping[int, int] = NONE,
        *,
        trace: bool = False,
        consumers: bool = False,
    ) -> None:
        super().__init__(plan, trace=trace)
        drawn = Random(plan.seed)
        grid = drawn.choice((0, 1, 3))
        self.streams = (SplitProviderSpec(("",), plan.size, None, 1, grid=grid),)
        self.stride = self.draw_stride(drawn) if consumers else None
        straight = not any(one.has_operators for one in plan.habits)
        self.ledger: InOrder
        self.ledger = self.witness = InOrder(self, self.stride, firsts, straight=straight)
        self.stats["consumers"] = self.stride or 0

    def draw_stride(self, chance: Random) -> int:
        """Return how many consumers there are: several readers may be one."""
        return chance.randint(1, self.plan.readers)

    def begins_anew(self) -> None:
        """Have consumers come back that had read to the end, if a pass lasts that is another now.

        What is theirs is nobody else's.
        """
        current = self.iteration(self.ledger.current)
        if self.stride is None or (current is not None and current.finished):
            return
        for name in sorted(self.over):
            self.at(self.chance.uniform(0.3, 9), self.start, name)
        self.over.clear()

    def gone(self, process: Process) -> None:
        """See `Mesh.gone`: what a consumer read to its end may have begun anew meanwhile."""
        super().gone(process)
        if isinstance(process, SimReader) and process.finished:
            if process.core.iteration != self.ledger.current:
                self.begins_anew()

    @property
    def firsts_of_last(self) -> dict[int, int]:
        """The first unit of each task's split, by the task's index, of the pass that counts."""
        last, firsts = self.ledger.current, self.ledger.firsts
        return {n: first for (of, n), first in firsts.items() if of == last}

    @property
    def mode(self) -> Mode:
        """See `Mesh.mode`."""
        return Mode.DYNAMIC

    def request(self, restore: bytes) -> OpenIterationRequest:
        """See `Mesh.request`."""
        return changed(super().request(restore), ordered=True, stride=self.stride)


class InOrder(Ledger):
    """Holds against the laws, too, in which order a reader hands elements out."""

    def __init__(
        self, world: OrderedMesh, stride: int | None, firsts: Mapping[int, int], *, straight: bool
    ) -> None:
        super().__init__(world, world.plan.origin)
        self._mesh, self._straight, self._stride = world, straight, stride
        self._last: dict[tuple[str, ReaderId | None, IterationId], Key] = defaultdict(
            lambda: (-1, -1)
        )
        self._readers: dict[tuple[IterationId, int], set[ReaderId]] = defaultdict(set)
        """Those that there ever were, of each consumer."""
        self._next_task: dict[IterationId, int] = {}
        self.firsts: dict[tuple[IterationId, int], int] = {}
        """The first unit of each task's split."""
        self._firsts_before = dict(firsts)

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """See `Ledger.consume`."""
        super().consume(session, reader, task, number, element)
        iteration, index = self.tasks[task]
        who, consumer = (session, reader, iteration), self._consumer(session)
        place = self._first(iteration, index) + number
        if self._stride is not None and place % self._stride != consumer:
            raise LawBroken(f"order: consumer {consumer} of {self._stride} gets element {place}")
        # What a reader had that crashed, or was silent for too long, comes late to the next one.
        alone = self._straight and len(self._readers[iteration, consumer]) == 1
        if alone and (index, number) < self._last[who]:
            raise LawBroken(f"order: {(index, number)} comes behind {self._last[who]}")
        self._last[who] = index, number

    def decided(self, fact: Fact) -> None:
        """See `Ledger.decided`."""
        if isinstance(fact, ReaderJoined):
            self._readers[fact.iteration, self._consumer(fact.session)].add(fact.reader)
        if isinstance(fact, IterationRestored):
            self._mesh.at(2.0, self._mesh.begins_anew)  # where nothing is left it is over by then
        if isinstance(fact, SplitsGranted) and fact.splits[0]:
            self.firsts[self.tasks[fact.task]] = fact.splits[0].start
        super().decided(fact)

    def restarted(self, state: DispatcherState) -> None:
        """See `Ledger.restarted`: tasks that are done are in the state no more."""
        self._next_task = {name: one.next_task for name, one in state.iterations.items()}
        super().restarted(state)

    def _first(self, iteration: IterationId, index: int) -> int:
        """Return the place of a task's first element: each unit of its split makes one."""
        return self.firsts.get((iteration, index), self._firsts_before.get(index, 0))

    def _consumer(self, session: str) -> int:
        return int(session[1:].partition(".")[0]) % (self._stride or 1)

    def _void(self, iteration: IterationId, found: AbstractSet[TaskId]) -> None:
        known = self._next_task[iteration]
        done = {t for t, (of, index) in self.tasks.items() if of == iteration and index < known}
        super()._void(iteration, found | done)


def run(seed: int, *, trace: bool = False, consumers: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with other counts."""
    plan = plan_in_order(Plan.draw(seed), consumers=consumers)

    def restored(mesh: OrderedMesh) -> OrderedMesh:
        later = plan_in_order(Plan.draw(seed, (plan, mesh.ledger.saved)), consumers=consumers)
        return OrderedMesh(later, mesh.firsts_of_last, trace=trace, consumers=consumers)

    return run_and_restore(OrderedMesh(plan, trace=trace, consumers=consumers), restored)


def plan_in_order(drawn: Plan, *, consumers: bool) -> Plan:
    """Return a schedule of one pass. Consumers have unequal numbers of elements: no loop keeps step
    with others, which would wait for what is not theirs."""
    habits = drawn.habits
    if consumers:
        habits = tuple(replace(one, lockstep=False) for one in habits)
    return replace(drawn, dynamic=True, passes=1, habits=habits)

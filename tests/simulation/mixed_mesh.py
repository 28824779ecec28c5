"""A mesh whose one job reads a mixture in order, while somebody changes its weights.

In many schedules a process is killed between a change and the first turn that it holds for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from random import Random
from typing import Any

from penstock.protocol.definition import MixtureOutline
from penstock.protocol.mixture import WeightStage
from penstock.protocol.types import IterationId, ReaderId, SourceSlice, TaskId
from penstock_dispatcher.core.events import Call, SetWeights
from penstock_dispatcher.core.fact_values import WeightChange
from penstock_dispatcher.core.facts import (
    Fact,
    IterationOpened,
    IterationRestored,
    SplitsGranted,
    WeightsChanged,
)
from penstock_dispatcher.core.mixture_record import MixtureRecord
from penstock_dispatcher.core.state import DispatcherState
from simulation.ledger import Saved
from simulation.lines import dial
from simulation.mesh import run_and_restore
from simulation.ordered_mesh import InOrder, OrderedMesh, plan_in_order
from simulation.pipeline import Element, taken
from simulation.plan import Plan
from simulation.runner import Work
from simulation.world import LawBroken, Process

NAMES = ("a", "b", "c")
READERS = (1, 2, 3, 8)
TRIES = 5
"""How often somebody asks for a change whose answer was lost."""

TURNS, BEGUN, STEP = (12, 30), 1.2, 0.15
"""Of a pass that is resumed: its turns, when ranks have begun, and the seconds of a turn."""

FULL = 0.2
"""How often workers have several slots: then the first tasks have nearly all turns."""

KILLS = 0.4
"""How often a process is killed between a change and its use."""


class MixedMesh(OrderedMesh):
    """One schedule of an ordered job, in which weights change at random times."""

    def __init__(
        self, plan: Plan, firsts: Mapping[int, int], *, trace: bool = False, consumers: bool = False
    ) -> None:
        super().__init__(plan, firsts, trace=trace, consumers=consumers)
        (stream,) = self.streams
        own = Random(plan.seed)
        sizes = tuple(own.choice((None, own.randint(1, 9))) for _ in NAMES)
        stages = (WeightStage(0, (1, own.randint(0, 4), own.randint(0, 2))),)
        cuts = (SourceSlice(0, plan.size),)
        self.mixture = MixtureOutline(NAMES, stages, sizes, seed=plan.seed, cuts=cuts)
        self.streams = (replace(stream, mixture=self.mixture),)
        self.work = Work(plan.size, 1, plan.nbytes, plan.room, mixture=self.mixture)
        straight = not any(one.has_operators for one in plan.habits)
        self.recorded = _Recorded(self, self.stride, firsts, straight=straight)
        self.ledger = self.witness = self.recorded
        self.stats[f"by {plan.readers} readers"] += 1
        for _ in range(self.chance.randint(1, 5)):
            turn = self.chance.randint(0, plan.size - 1)
            weights = {name: float(self.chance.randint(0, 5)) for name in NAMES}
            at = self.chance.choice((None, None, self.chance.randint(turn, plan.size)))
            self.recorded.wishes.append((turn, partial(self.asks, weights, at, TRIES)))

    def strike(self) -> None:
        """Have the dispatcher or a worker killed soon, in a world in which that happens."""
        if self.rough and self.chance.random() < KILLS:
            whom = self.chance.choice(("d", "w"))
            self.at(self.chance.uniform(0, 1), self.fault, f"crash {whom}")

    def gone(self, process: Process) -> None:
        """See `OrderedMesh.gone`; count who ended between a change and its use."""
        if process.name[0] in "dw" and self.recorded.has_unused:
            self.stats[f"a {process.name[0]} ended before a change was used"] += 1
        super().gone(process)

    def asks(self, weights: dict[str, float], at: int | None, tries: int) -> None:
        """Have somebody ask the dispatcher for *weights*, again if no answer comes."""
        caller = Process(self, "trainer")
        line = dial(caller, "d")
        answered = []

        def hear(answer: Any) -> None:
            answered.append(answer)
            self.stats["changes answered" if isinstance(answer, int) else "changes refused"] += 1
            if isinstance(answer, int):
                self.recorded.answered(answer, weights)

        def lost() -> None:
            if not answered and tries:
                self.at(self.chance.uniform(0.1, 2), self.asks, weights, at, tries - 1)

        line.hear, line.lost = hear, lost
        line.send(SetWeights(Call(0), "job", weights, at))

    def _everything(self) -> set[Element]:
        record = MixtureRecord(self.mixture, self.recorded.changes)
        turns = record.turns(0, -1)
        return {Element(taken(turns, unit), 0, unit) for unit in range(self.plan.size)}


class _Recorded(InOrder):
    """Holds what was consumed against the changes that are on record."""

    changes: tuple[WeightChange, ...] = ()
    """Those of the pass that counts."""

    def __init__(self, world: MixedMesh, *args: Any, **more: Any) -> None:
        super().__init__(world, *args, **more)
        self._mixed = world
        self._promised: dict[int, tuple[int, ...]] = {}
        """The parts that the dispatcher has confirmed, by the turn from which they hold."""
        self._newest_turn = -1
        """The newest turn that a loop has taken."""
        self.wishes: list[tuple[int, Callable[[], None]]] = []
        """What somebody asks for as soon as a task has a turn."""

    @property
    def has_unused(self) -> bool:
        """Whether there is a change from a turn that no loop came to."""
        return any(each.stage.begin > self._newest_turn for each in self.changes)

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """See `Ledger.consume`."""
        super().consume(session, reader, task, number, element)
        self._newest_turn = max(self._newest_turn, element.unit)

    def decided(self, fact: Fact) -> None:
        """See `Ledger.decided`."""
        super().decided(fact)
        if isinstance(fact, IterationOpened | IterationRestored):
            self._promised, self._newest_turn = {}, -1
            self._look(fact.iteration)
        if isinstance(fact, SplitsGranted) and self.tasks[fact.task][0] == self.current:
            self._ask(fact.splits[0].stop)
        if isinstance(fact, WeightsChanged) and fact.iteration == self.current:
            begin = fact.change.stage.begin
            self._promised = {at: one for at, one in self._promised.items() if at < begin}
            self._look(self.current)
            self.world.stats["weights changed"] += 1
            self._mixed.strike()

    def restarted(self, state: DispatcherState) -> None:
        """See `Ledger.restarted`."""
        super().restarted(state)
        known = state.iterations.get(self.current)
        if known is not None and known.providers:
            self.changes = known.providers[0].changes
        self._check_promises()

    def answered(self, begin: int, weights: Mapping[str, float]) -> None:
        """Note that the dispatcher confirmed that *weights* hold from turn *begin* on."""
        found = {each.stage.begin: each.stage.parts for each in self.changes}
        if begin in found and _alike(found[begin], weights):
            self._promised[begin] = found[begin]

    def _ask(self, turn: int) -> None:
        for wish in [each for each in self.wishes if each[0] <= turn]:
            self.wishes.remove(wish)
            self.world.at(self.world.chance.uniform(0, 0.3), wish[1])

    def _look(self, iteration: IterationId) -> None:
        known = self._mixed.iteration(iteration)
        if known is not None and known.providers:
            self.changes = known.providers[0].changes

    def _check_promises(self) -> None:
        found = {each.stage.begin: each.stage.parts for each in self.changes}
        for begin, parts in self._promised.items():
            if found.get(begin) != parts:
                raise LawBroken(f"weights: the change at turn {begin} was confirmed, and is lost")


def _alike(parts: tuple[int, ...], weights: Mapping[str, float]) -> bool:
    total = sum(weights.values())
    return all(
        part * total == weights[name] * sum(parts) for name, part in zip(NAMES, parts, strict=True)
    )


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with other counts."""
    consumers = bool(seed % 2)
    plan = _plan(Plan.draw(seed), consumers=consumers)

    def restored(mesh: OrderedMesh) -> MixedMesh:
        later = _plan(Plan.draw(seed, (plan, mesh.ledger.saved)), consumers=consumers)
        return made(later, mesh.firsts_of_last)

    made = partial(MixedMesh, trace=trace, consumers=consumers)
    return run_and_restore(made(plan, {}), restored)


class RankMesh(MixedMesh):
    """One schedule in which each reader is a consumer, as ranks are."""

    def draw_stride(self, chance: Random) -> int:
        """See `OrderedMesh.draw_stride`."""
        return self.plan.readers


def resume(seed: int, first: int, then: int) -> Counter[str]:
    """Have *first* ranks read without a fault, and *then* ranks go on from what they save."""

    def plan(ranks: int, origin: tuple[Plan, Saved] | None = None) -> Plan:
        drawn = _plan(Plan.draw(seed, origin), consumers=True)
        habits = tuple(islice(cycle(drawn.habits), ranks))
        return replace(drawn, kind="calm", faults=(), never=(), readers=ranks, habits=habits)

    def restored(mesh: OrderedMesh) -> MixedMesh:
        later = plan(then, (mesh.plan, mesh.ledger.saved))
        return RankMesh(later, mesh.firsts_of_last, consumers=True)

    own = Random(f"resume {seed} {first} {then}")
    size = own.randint(*TURNS)
    save_at = BEGUN + own.uniform(0, STEP * size / first)
    return run_and_restore(
        RankMesh(replace(plan(first), size=size, save_at=save_at), {}, consumers=True), restored
    )


def _plan(drawn: Plan, *, consumers: bool) -> Plan:
    """Return a schedule with one of `READERS`, and of fewer tasks at once than there are turns."""
    plan = plan_in_order(drawn, consumers=consumers)
    own = Random(f"mixed {plan.seed} {plan.origin is not None}")
    readers = own.choice(READERS)
    slots = plan.slots if own.random() < FULL else ()
    habits = tuple(islice(cycle(plan.habits), readers))
    return replace(plan, readers=readers, habits=habits, slots=slots)

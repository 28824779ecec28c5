"""A training loop: it asks its reader's mind as a session does, computes, saves, and leaves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.protocol.types import TaskId
from penstock.reader.core.hand import Hand, NoElement
from penstock.reader.core.state_machine import ReaderCore
from simulation.operators import Operators
from simulation.pipeline import Element

if TYPE_CHECKING:
    from simulation.reader import SimReader

CUTS = 3
"""How often a loop that is impatient comes to a cut again, where others may not."""


class Block:
    """A block that the loop has before it. See `penstock.reader.core.hand.Handed`."""

    def __init__(self, task: TaskId, first: int, elements: tuple[Element, ...]) -> None:
        self.task, self.first = task, first
        self._elements, self._at, self._stop = elements, 0, len(elements)

    def take(self) -> tuple[TaskId, int, Element] | None:
        """Return the next element, with its task and number."""
        at = self._at
        if at >= self._stop:
            return None
        self._at += 1
        return self.task, self.first + at, self._elements[at]

    def returned(self) -> int:
        """See `Handed.returned`."""
        return self._at

    def withdraw(self) -> int:
        """See `Handed.withdraw`."""
        self._stop = self._at
        return self._at


@dataclass(frozen=True, slots=True)
class Habits:
    """How a loop goes about it: seconds for a step, operators behind the reader, patience."""

    step: float
    lockstep: bool
    depth: int
    batch: int
    ahead: int
    impatient: bool
    """Whether it is interrupted in a save, and asks for elements before the verdict."""

    @property
    def borrows(self) -> bool:
        """Whether there are operators behind the reader."""
        return self.batch > 0


class Loop:
    """One training loop. It gets elements one by one, or in batches through operators."""

    def __init__(self, reader: SimReader, habits: Habits) -> None:
        self.reader, self.habits = reader, habits
        self.core: ReaderCore = reader.core
        self.count = 0
        self.waits = self.over = False
        """Whether it stands in `next()`; whether the pass is over for it."""
        self.save: tuple[str, float, bool] | None = None
        """What it is saving: the label, and how long the others have."""
        self.wants_save: tuple[str, float, bool] | None = None
        self.wants_to_leave = False
        self._asks = False
        self._cuts = 0
        """How often it came to a cut for the present save."""
        self._block: Block | None = None
        self._stale: Hand | None = None
        self.operators: Operators | None = None
        if habits.borrows:
            chance = reader.world.chance
            self.operators = Operators(chance, habits.depth, habits.batch, habits.ahead)
            self.core.given.borrowed.follower = self.operators
        reader.at(0.1, self.turn)

    def turn(self) -> None:
        """Do a step, if the loop computes no more, and is not asking."""
        if self.over:
            return
        self.reader.at(self.habits.step * self.reader.world.chance.uniform(0.2, 1.8), self.turn)
        if self.waits:
            self.poke()
            return
        if self.wants_to_leave:
            self.over = True
            self.reader.leave()
            return
        if self.wants_save is not None and self.save is None and self.core.saving.possible:
            self.save, self.wants_save = self.wants_save, None
        if self.save is not None and not self._saved():
            return
        if self.habits.lockstep and self.count > self.reader.behind():
            self._work_ahead()
            return
        self.waits = True
        self.poke()

    def poke(self) -> None:
        """Look whether there is something for a loop that waits."""
        if not self.waits or self.over:
            return
        try:
            got = self._batch() if self.operators is not None else self._element()
        except PenstockError as error:
            self.over = True
            self.reader.failed(error)
            return
        if got:
            self.waits = False
            self.count += 1
        self.reader.follow_up()

    def _saved(self) -> bool:
        """Go on with a save; say whether the loop is free to ask for elements."""
        assert self.save is not None
        before = self.core.saving.cut
        try:
            label, seconds, without = self.save
            verdict = self.core.save(label, seconds, self.reader.now, without_missing=without)
        except PenstockError as error:
            self.over = True
            self.reader.failed(error)
            return False
        if before is None and self.core.saving.cut is not None:
            self.reader.comes_to_cut()  # for the first time, or again: it was given up at the last
            self._cuts += 1
        self.reader.follow_up()
        if verdict is not None or self._cuts > CUTS:
            self.save, self._cuts = None, 0
            return True
        return self.habits.impatient and self.core.saving.cut is not None

    # --- element by element ---

    def _element(self) -> bool:
        now = self.reader.now
        if self._block is not None and now < self.core.member.permitted_until:
            if (one := self._block.take()) is not None:
                self.reader.took(*one)
                return True
        self._block = None
        hand = self._stale or self.core.ask(now)
        chance = self.reader.world.chance
        if isinstance(hand, NoElement):
            if hand is NoElement.OVER:
                self.over = True
                self.reader.leave()
            return False
        if self._stale is None and chance.random() < 0.05:
            self._stale = hand  # the elements are being unpacked, and the network goes on
            return False
        self._stale = None
        if chance.random() < 0.05:
            return self._all_of(hand)
        block = Block(hand.share.task, hand.start, self._load(hand))
        first = block.take()
        assert first is not None
        if not self.core.accept(hand, block, now):
            return self._element()
        self._block = block
        self.reader.took(*first)
        return True

    def _all_of(self, hand: Hand) -> bool:
        if not self.core.accept(hand, None, self.reader.now):
            return False
        for number, element in enumerate(self._load(hand), hand.start):
            self.reader.took(hand.share.task, number, element)
        return True

    def _load(self, hand: Hand) -> tuple[Element, ...]:
        first = hand.piece.frame.first
        load: tuple[Element, ...] = hand.piece.load  # type: ignore[assignment]
        return load[hand.start - first : hand.stop - first]

    # --- through operators ---

    def _batch(self) -> bool:
        now, operators = self.reader.now, self.operators
        assert operators is not None
        if not self._asks:
            self._asks = True
            self.core.begin(now)
        while True:
            pause = None if operators.groups else self._pull(now)
            if pause is NoElement.WAIT:
                return False
            if now >= self.core.permitted_until:
                self.core.permit(now)
                return False
            group, dropped = operators.next()
            if dropped:
                self.core.give_back(dropped, now)
            if group:
                for _, task, number, element in group:
                    self.reader.took(task, number, element)
                self._asks = False
                self.core.came_back(now)
                return True
            if pause is NoElement.OVER:
                self.over = True
                self.reader.leave()
                return False
            if pause is NoElement.REST and not operators.pool:
                return False

    def _pull(self, now: float) -> NoElement | None:
        """Pull until there is a batch; say what kept the reader from giving more."""
        operators = self.operators
        assert operators is not None
        while True:
            operators.fill(last=False)
            if operators.groups:
                return None
            hand = self.core.borrow(now, operators.batch)
            if isinstance(hand, NoElement):
                if hand is not NoElement.WAIT:
                    operators.fill(last=True)
                return hand
            if self.core.lend(hand, now):
                numbers = range(hand.start, hand.stop)
                task = hand.share.task
                operators.put(
                    [(task, n, e) for n, e in zip(numbers, self._load(hand), strict=True)]
                )

    def _work_ahead(self) -> None:
        """Let operators pull something though nobody asks, as a prefetch does."""
        if self.operators is not None and self.operators.wants:
            with suppress(PenstockError):
                self._pull(self.reader.now)
            self.reader.follow_up()

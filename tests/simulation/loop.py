"""A training loop: it asks its reader's core as a session does, computes, saves, and leaves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.protocol.types import TaskId
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore
from penstock.reader.core.task_stream import FrameSlice
from simulation.operators import Block, Operators
from simulation.pipeline import Element

if TYPE_CHECKING:
    from simulation.reader import SimReader

BARRIERS = 3
"""How often a loop that is impatient comes to a barrier again, where others may not."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How a loop goes about it: seconds for a step, operators behind the reader, patience."""

    step: float
    lockstep: bool
    depth: int
    batch: int
    ahead: int
    impatient: bool
    """Whether it is interrupted in a save, and asks for elements before the result."""

    @property
    def has_operators(self) -> bool:
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
        self._barriers = 0
        """How often it came to a barrier for the present save."""
        self._block = Block()
        self._stale: FrameSlice | None = None
        self.operators: Operators | None = None
        if habits.has_operators:
            chance = reader.world.chance
            self.operators = Operators(chance, habits.depth, habits.batch, habits.ahead)
        self.core.acks.deliveries.tracker = self.operators or self._block
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
        if self.wants_save is not None and self.save is None and self.core.save_state.possible:
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
        before = self.core.save_state.barrier
        try:
            label, seconds, without = self.save
            result = self.core.save(label, seconds, self.reader.now, without_missing=without)
        except PenstockError as error:
            self.over = True
            self.reader.failed(error)
            return False
        if before is None and self.core.save_state.barrier is not None:
            self.reader.comes_to_barrier()  # for the first time, or again: it expired at the last
            self._barriers += 1
        self.reader.follow_up()
        if result is not None or self._barriers > BARRIERS:
            self.save, self._barriers = None, 0
            return True
        return self.habits.impatient and self.core.save_state.barrier is not None

    # --- element by element ---

    def _element(self) -> bool:
        now, block = self.reader.now, self._block
        if not self._asks and block.free and block.items and now < self.core.membership.lease_until:
            return self._take()  # and nobody is told
        self._ask()
        if not block.items and not self._next_block(now):
            return False
        if self.core.permit(now) is not True:
            return False
        block.free = self._take()
        self._asks = False
        self.core.loop_running(now)
        return True

    def _take(self) -> bool:
        _, task, number, element = self._block.items.pop(0)
        self.reader.consume(task, number, element)
        return True

    def _next_block(self, now: float) -> bool:
        """Pull the next block; say False if there is none, or it is to be unpacked first."""
        piece = self._stale or self.core.next_slice(now)
        if isinstance(piece, NoElement):
            if piece is NoElement.END:
                self.over = True
                self.reader.leave()
            return False
        if self._stale is None and self.reader.world.chance.random() < 0.05:
            self._stale = piece  # its elements are being unpacked, and the network goes on
            return False
        self._stale = None
        if self.core.deliver(piece, now):
            self._block.put(self._load(piece))
            return True
        return self._next_block(now)

    def _ask(self) -> None:
        if not self._asks:
            self._asks = True
            self.core.loop_waiting()

    def _load(self, piece: FrameSlice) -> list[tuple[TaskId, int, Element]]:
        first = piece.frame.first
        load: tuple[Element, ...] = piece.load  # type: ignore[assignment]
        part = load[piece.start - first : piece.stop - first]
        task, numbers = piece.frame.task, range(piece.start, piece.stop)
        return [(task, n, e) for n, e in zip(numbers, part, strict=True)]

    # --- through operators ---

    def _batch(self) -> bool:
        now, operators = self.reader.now, self.operators
        assert operators is not None
        self._ask()
        while True:
            pause = None if operators.groups else self._pull(now)
            if pause is NoElement.WAIT:
                return False
            if now >= self.core.lease_until:
                self.core.permit(now)
                return False
            group, dropped = operators.next()
            if dropped:
                self.core.requeue(dropped, now)
            if group:
                for _, task, number, element in group:
                    self.reader.consume(task, number, element)
                self._asks = False
                self.core.loop_running(now)
                return True
            if pause is NoElement.END:
                self.over = True
                self.reader.leave()
                return False
            if pause is NoElement.FLUSH and not operators.items:
                return False

    def _pull(self, now: float) -> NoElement | None:
        """Pull until there is a batch; say what kept the reader from giving more."""
        operators = self.operators
        assert operators is not None
        while True:
            operators.fill(last=False)
            if operators.groups:
                return None
            piece = self.core.next_slice(now, operators.batch)
            if isinstance(piece, NoElement):
                if piece is not NoElement.WAIT:
                    operators.fill(last=True)
                return piece
            if self.core.deliver(piece, now):
                operators.put(self._load(piece))

    def _work_ahead(self) -> None:
        """Let operators pull something though nobody asks, as a prefetch does."""
        if self.operators is not None and self.operators.wants:
            with suppress(PenstockError):
                self._pull(self.reader.now)
            self.reader.follow_up()

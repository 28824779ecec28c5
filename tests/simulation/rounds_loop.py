"""A training loop that reads in rounds: it asks, computes, saves, skips rounds, and leaves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import ConsumerLost, PenstockError
from penstock.protocol.data import FrameHeader
from penstock.reader.core.rounds import RoundSlice
from penstock.reader.core.session_core import NoElement, SessionCore
from simulation.operators import Line
from simulation.pipeline import Element
from simulation.rounds_plan import RoundHabits
from simulation.world import LawBroken

if TYPE_CHECKING:
    from simulation.consumer import SimConsumer


class RoundsLoop:
    """One training loop of a consumer. It gets elements one by one, or batches of them."""

    def __init__(self, consumer: SimConsumer, habits: RoundHabits, save: tuple[int, float]) -> None:
        self.consumer, self.habits = consumer, habits
        self.core: SessionCore = consumer.core
        self.next: int | None = None
        """The round that it takes next, once it is known."""
        self.over = self.waits = self.wants_to_leave = False
        self.skip_to = 0
        """The round to which it skips at its next step."""
        self.skipped = 0
        self._save_round, self._save_for = save
        self._saves = False
        self._stale: RoundSlice | None = None
        self._asks = False
        self._line: Line | None = None
        if habits.batch or habits.tracks:
            self._line = Line(max(1, habits.batch), habits.ahead)
            self.core.acks.deliveries.tracker = self._line
        consumer.at(0.1, self.turn)

    @property
    def pulled(self) -> int | None:
        """The round behind those that operators have."""
        return (
            None if self.next is None else self.next + (len(self._line.items) if self._line else 0)
        )

    def turn(self) -> None:
        """Do a step, if the loop computes no more, and is not asking."""
        if self.over:
            return
        pause = self.habits.step * self.consumer.world.chance.uniform(0.2, 1.8)
        self.consumer.at(pause, self.turn)
        if self.next is None and not self._located():
            return
        if self.skip_to > (self.next or 0):
            self._skip()
        if self.waits:
            self.poke()
        elif self.wants_to_leave:
            self.over = True
            self.consumer.leave()
        elif not self._stands_at_save():
            ahead = (self.next or 0) - self.consumer.behind()
            if self.habits.lockstep and ahead >= max(1, self.habits.batch):
                self._work_ahead()
            else:
                self.waits = True
                self.poke()

    def poke(self) -> None:
        """Look whether there is something for a loop that waits."""
        if not self.waits or self.over:
            return
        try:
            got = self._advance()
        except ConsumerLost as error:
            self.waits = self._asks = False
            self.core.loop_running(self.consumer.now)
            self.consumer.note_lost(str(error))
        except PenstockError as error:
            self.over = True
            self.consumer.failed(error)
            return
        else:
            self.waits = not got
        self.consumer.follow_up()

    def _located(self) -> bool:
        number = self.core.locate(self.consumer.now)
        if isinstance(number, NoElement):
            return False
        self.next = number
        return True

    def _skip(self) -> None:
        """Skip rounds as an iterator does: operators begin anew, and what they had comes again."""
        assert self.next is not None
        now = self.consumer.now
        self.core.skip_to(self.skip_to, now)
        self._stale = None
        if self._line is not None:
            tags = self._line.drop_all()
            self.consumer.note_requeued()
            self.core.requeue(tags, now)
        self.skipped += self.skip_to - self.next
        self.next = self.skip_to
        if self.core.skipped != self.skipped:
            raise LawBroken(
                f"account: {self.core.skipped} count as skipped, {self.skipped} rounds were"
            )
        self.consumer.skips(self.next)
        self.consumer.follow_up()

    def _stands_at_save(self) -> bool:
        """Go on with a save, if this is the round for it; say whether it has no result yet."""
        if not self._saves:
            due = self._save_round and self.next == self._save_round
            if not due or not self.core.save_state.possible:
                return False
            self._saves = True
        before = self.core.save_state.barrier
        try:
            result = self.core.save("", self._save_for, self.consumer.now)
        except PenstockError as error:
            self.over = True
            self.consumer.failed(error)
            return True
        if before is None and self.core.save_state.barrier is not None:
            self.consumer.comes_to_barrier()
        self.consumer.follow_up()
        if result is None:
            return not (self.habits.impatient and self.core.save_state.barrier is not None)
        self._saves, self._save_round = False, 0
        return False

    # --- elements ---

    def _advance(self) -> bool:
        """Give the loop its next element, or batch; return False if there is none."""
        now = self.consumer.now
        if not self._asks:
            self._asks = True
            self.core.loop_waiting()
        if self._line is None:
            pulled = self._pull(now)
            if isinstance(pulled, NoElement):
                return self._ends(pulled)
            self._take(*pulled)
        else:
            pause = self._fill(self._line, now)
            if not self._line.ready:
                return self._ends(pause)
            if now >= self.core.lease_until:
                self.core.permit(now)
                return False
            for _, frame, element in self._line.next():
                self._take(frame, element)
        self._asks = False
        self.core.loop_running(now)
        return True

    def _ends(self, pause: NoElement | None) -> bool:
        if pause is NoElement.FLUSH:
            raise LawBroken("a consumer is told to flush")
        if pause is NoElement.END:
            self.over = True
            self.consumer.comes_to_end(self.next)
        return False

    def _fill(self, line: Line, now: float) -> NoElement | None:
        while not line.ready:
            pulled = self._pull(now)
            if pulled is NoElement.END:
                line.ended = True
            if isinstance(pulled, NoElement):
                return pulled
            line.put([pulled])
        return None

    def _pull(self, now: float) -> tuple[FrameHeader, Element] | NoElement:
        while True:
            piece = self._stale or self.core.next_slice(now, 1)
            if isinstance(piece, NoElement):
                return piece
            if self._stale is None and self.consumer.world.chance.random() < 0.05:
                self._stale = piece  # its element is being unpacked, and the network goes on
                return NoElement.WAIT
            self._stale = None
            if self.core.deliver(piece, now):
                if piece.stop - piece.start != 1:
                    raise LawBroken("law 1: a round is several elements")
                load: tuple[Element, ...] = piece.pieces[0].load  # type: ignore[assignment]
                return piece.pieces[0].frame, load[0]

    def _take(self, frame: FrameHeader, element: Element) -> None:
        assert self.next is not None
        if self.core.save_state.barrier is not None:
            raise LawBroken("a loop at a barrier is given something")
        self._saves = False  # if it did, and was interrupted, it goes on without the result
        self.consumer.take(self.next, frame, element)
        self.next += 1

    def _work_ahead(self) -> None:
        """Let operators pull something though nobody asks, as a prefetch does."""
        line = self._line
        if line is not None and line.wants and not self._saves:
            with suppress(PenstockError):
                now = self.consumer.now
                pulled = self._pull(now)
                if not isinstance(pulled, NoElement):
                    line.put([pulled])
            self.consumer.follow_up()

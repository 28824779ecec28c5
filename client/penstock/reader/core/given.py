"""What was handed towards the loop and is not acked: its block, and what operators have unacked."""

from __future__ import annotations

from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import TaskId
from penstock.reader.core.deliveries import Deliveries, Delivery, Numbers
from penstock.reader.core.flow_control import ACK_EVERY
from penstock.reader.core.hand import Hand
from penstock.reader.core.task_stream import LONG_AGO, TaskStream

SETTLE_AT_MOST = 0.5
"""Seconds between two questions what the loop has got, while it gets nothing."""

SETTLE_COST = 1e-4
"""Seconds that pass for each run that is lent before it is asked again: shuffles owe thousands."""


class GivenElements:
    """What of *shares* the loop has before it, or operators hold; and how much it has got."""

    def __init__(self, shares: dict[TaskId, TaskStream]) -> None:
        self.hand: Hand | None = None
        self.borrowed = Deliveries()
        self.handed = 0
        self._shares = shares
        self._settle_at, self._settle_every = LONG_AGO, ACK_EVERY

    def settle(self, now: float, *, at_once: bool = False) -> None:
        """Note what the loop has got since; about loans that is asked now and then."""
        self.settle_hand()
        if self.borrowed and (at_once or now >= self._settle_at):
            got = self.borrowed.settle()
            self._got(got)
            slower = min(2 * self._settle_every, SETTLE_AT_MOST)
            self._settle_every = ACK_EVERY if got else slower
            pause = max(self._settle_every, SETTLE_COST * len(self.borrowed))
            self._settle_at = now + pause

    def drop_all(self) -> None:
        """Drop everything: it was given to others."""
        self.withdraw_hand()
        got, back = self.borrowed.call_in(lambda loan: loan)
        self._got(got)
        self._freed(back)
        for share in self._shares.values():
            share.clear()

    def settle_hand(self) -> None:
        """Note what the loop has got of its block."""
        hand = self.hand
        if hand is not None and hand.handed is not None:
            self._note(hand, hand.handed.returned())

    def stir(self, now: float) -> None:
        """Ask soon what the loop has got: something new is before it."""
        self._settle_every = ACK_EVERY
        self._settle_at = min(self._settle_at, now + ACK_EVERY)

    def due(self, now: float) -> float:
        """Return when `settle` may find something."""
        at = now + ACK_EVERY if self.hand is not None else now + 1.0
        return min(at, self._settle_at) if self.borrowed else at

    def take(self, hand: Hand) -> None:
        """Know that the loop has all of *hand*."""
        self._note(hand, hand.stop - hand.start)
        self.hand = None

    def lend(self, hand: Hand) -> None:
        """Know that operators have all of *hand*."""
        hand.share.lend(hand.piece, hand.stop)
        self.borrowed.lend(hand.share.task, hand.start, hand.stop)
        self.hand = None

    def withdraw_hand(self) -> None:
        """Let the loop get no more of its block: that is buffered as before."""
        hand, self.hand = self.hand, None
        if hand is not None and hand.handed is not None:
            self._note(hand, hand.handed.withdraw())

    def drop(self, share: TaskStream) -> None:
        """Drop the pieces of *share* that are here."""
        if self.hand is not None and self.hand.share is share:
            self.withdraw_hand()
        share.clear()

    def call_in(self, share: TaskStream, below: int | None = None) -> None:
        """Take back what operators hold of *share*, or what of that is *below* a number."""

        def wanted(loan: Delivery) -> Delivery | None:
            if loan.task != share.task:
                return None
            return loan if below is None else loan.below(below)

        got, back = self.borrowed.call_in(wanted)
        self._got(got)
        self._freed(back)

    def give_back(self, places: RangeSet) -> list[TaskStream]:
        """Free what was lent at *places*; return the shares that it is of."""
        back = self.borrowed.give_back(places)
        self._freed(back)
        return [self._shares[task] for task in back]

    def drop_below(self, share: TaskStream, floor: int) -> None:
        """Drop what of *share* lies below *floor*, wherever it is."""
        if share.pieces and share.pieces[0].start < floor:
            if self.hand is not None and self.hand.share is share:
                self.withdraw_hand()
            share.drop_below(floor)
        if share.lowest < floor:
            self.call_in(share, floor)

    def _note(self, hand: Hand, count: int) -> None:
        new = hand.start + count - hand.piece.start
        if new > 0:
            self.handed += new
            hand.share.take(hand.piece, hand.start + count)

    def _got(self, numbers: Numbers) -> None:
        for task, runs in numbers.items():
            self.handed += len(runs)
            self._shares[task].took(runs)

    def _freed(self, numbers: Numbers) -> None:
        for task, runs in numbers.items():
            self._shares[task].free(runs)

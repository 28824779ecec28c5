"""One consumer's rounds: which are released, which comes next, and what the loop has had."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from penstock.errors import SaveFailed
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.rounds import RoundEntry, RoundsView
from penstock.protocol.types import TaskId

ROUNDS = TaskId(0)
"""Stands for the log of rounds, where elements are numbered as those of a task: no task has it."""

NO_ROUNDS = RoundsView(0, 0)


class RoundLog:
    """The rounds of one consumer.

    Requeued rounds, once handed to local operators, come again before new rounds.
    """

    def __init__(self) -> None:
        self.known = False
        """Whether the dispatcher said with which round to begin."""
        self.view = NO_ROUNDS
        self.position = 0
        """The next round to hand out for the first time."""
        self.skipped = 0
        """How many rounds were left out on purpose."""
        self.fillers: set[int] = set()
        """The rounds that were handed out with a filler, and may be the last that the loop had."""
        self._again: list[int] = []
        """Requeued rounds, in order: they are handed out first."""
        self._acked = NOTHING_ACKED
        self._skip_below = 0

    @property
    def taken(self) -> int:
        """All rounds below were had by the loop, or skipped."""
        return self._acked.floor

    @property
    def next(self) -> int:
        """The round to hand out next."""
        return self._again[0] if self._again else self.position

    @property
    def at_end(self) -> bool:
        """Whether all rounds of the pass were handed out."""
        return not self._again and self.view.last is not None and self.position >= self.view.last

    @property
    def finished(self) -> bool:
        """Whether the loop has all rounds of the pass, and nothing went wrong."""
        last = self.view.last
        return self.view.failure is None and last is not None and self.taken >= last

    @property
    def ends_with_filler(self) -> bool:
        """Whether the last round that the loop had came with a filler."""
        self.fillers = {number for number in self.fillers if number >= self.taken - 1}
        return self.taken - 1 in self.fillers

    @property
    def in_hand(self) -> int:
        """How many released rounds were never handed out."""
        return self.view.released - self.position

    @property
    def skips_ahead(self) -> bool:
        """Whether rounds are to be skipped that are not released."""
        return self.position > self.view.released

    @property
    def out_of_order(self) -> bool:
        """Whether the loop has a round behind one that it has not."""
        return bool(self._acked.more)

    def order_error(self) -> SaveFailed:
        """Return why there is no save when it is `out_of_order`."""
        return SaveFailed(
            f"the loop has rounds behind round {self.taken}, which it has not: operators behind "
            "distribute that reorder elements (shuffle) belong before it, or need ordered=True"
        )

    def on_view(self, view: RoundsView) -> None:
        """Take over which rounds are released. The first view says where to begin."""
        if not self.known:
            self.known, self.position = True, view.start
            self._acked = AckedSet(view.start)
        self.view = view

    def entry(self, number: int) -> RoundEntry | None:
        """Return what a round is made of, if it is released."""
        at = number - self.view.first
        return RoundEntry(*self.view.entries[at]) if 0 <= at < len(self.view.entries) else None

    def wanted(self) -> list[RoundEntry]:
        """Return what the released rounds are made of that are still to be handed out, in order."""
        rounds = (*self._again, *range(self.position, self.view.released))
        return [entry for number in rounds if (entry := self.entry(number)) is not None]

    def follows(self, number: int) -> bool:
        """Return whether round *number* is handed out behind the one before it."""
        if not self._again:
            return number >= self.position
        first = self._again[0]
        return self._again[number - first : number - first + 1] == [number]

    def hand_out(self, start: int, stop: int) -> None:
        """Record that the rounds from *start*, the `next` one, to *stop* are handed out."""
        if self._again:
            del self._again[: stop - start]
        else:
            self.position = stop

    def ack(self, rounds: RangeSet) -> None:
        """Record that the loop had these rounds."""
        acked = self._acked.union(rounds)
        position = max(self.position, acked.floor)
        # Ctrl-C strikes where a function is called, so not between these: no acked round
        # is handed out any more.
        self._acked, self.position = acked, position

    def requeue(self, rounds: RangeSet) -> None:
        """Let rounds that were handed out come again, unless they are to be skipped.

        Those that were about to be handed out, when Ctrl-C struck, come anyway.
        """
        for number in rounds:
            if number < self._skip_below:
                self._skip([(number, number + 1)], self.position)
            elif number < self.position and number not in self._again:
                insort(self._again, number)

    def clear(self) -> None:
        """Keep all: no other consumer takes what is this one's."""

    def skip_to(self, number: int) -> None:
        """Hand out no round below *number*; those in operators are skipped when they come back."""
        again = [n for n in self._again if n >= number]
        skipped = [(n, n + 1) for n in self._again if n < number]
        if self.position < number:
            skipped.append((self.position, number))
        self._skip_below = max(self._skip_below, number)
        self._skip(skipped, max(self.position, number))
        self._again = again

    def _skip(self, spans: Sequence[tuple[int, int]], position: int) -> None:
        rounds = RangeSet.of(*spans)
        skipped = self.skipped + len(rounds - self._acked.ranges)
        acked = self._acked.union(rounds)
        self.skipped, self._acked, self.position = skipped, acked, position  # see `ack`

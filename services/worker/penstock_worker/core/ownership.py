"""Which reader has each number of an attempt.

    not yet ──produced──▶ ready ──assigned──▶ unacked at one reader ──handed out──▶ acked
                            ▲                         │
                            └───────requeued──────────┘

Only the reader itself (a subscription that does not list it), or the dispatcher's message that the
reader left or expired, releases what it has. What an assignment lists as buffered is reserved
before it is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.types import ReaderId


class Ownership:
    """The numbers of one attempt. All below *head* are there, or taken."""

    def __init__(self, head: int, taken: AckedSet, held: Mapping[ReaderId, RangeSet]) -> None:
        self.head = head
        self.ready = NO_RANGES
        self.held = {reader: runs - taken.runs for reader, runs in held.items()}
        self.taken = taken
        self.lent = NO_RANGES
        """What readers hold and is not here any more."""
        self.astray = NO_RANGES
        """What of that was given back: nobody has it."""
        self.doubted = 0
        """What was free again because its reader was given up."""

    @property
    def holders(self) -> set[ReaderId]:
        """The readers that hold something."""
        return {reader for reader, held in self.held.items() if held}

    def there(self, number: int, *, made: bool) -> int:
        """Count what exists from *number* on: all that was *made* here, or what readers told."""
        if made:
            return self.head - number
        held = (span for runs in self.held.values() for span in runs.spans)
        there = RangeSet.of(*self.taken.runs.spans, *held)
        return len(there - RangeSet.of((0, number)))

    def make(self, start: int, stop: int) -> RangeSet:
        """Know that *start* to *stop* are there; return those that are not taken."""
        self.head = max(self.head, stop)
        numbers = RangeSet.of((max(start, self.taken.floor), stop)) - self.taken.more
        free = numbers
        for held in self.held.values():
            free = free - held
        self.ready = self.ready | free
        return numbers

    def send(self, reader: ReaderId, part: RangeSet) -> None:
        """Let *reader* hold *part*, which was ready."""
        self.ready = self.ready - part
        self.held[reader] = self.held[reader] | part

    def lend(self, numbers: RangeSet) -> None:
        """Know that those of *numbers* that are not taken are with readers only."""
        self.lent = self.lent | (numbers - self.taken.runs)

    def stray(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Return what of *buffered* is not *reader*'s to have."""
        return buffered - self.taken.runs - self.held.get(reader, NO_RANGES)

    def settle(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Let *reader* hold *buffered* only; return what it gave back."""
        buffered = buffered - self.taken.runs
        back = self.held.get(reader, NO_RANGES) - buffered
        self._free(back)
        self.held[reader] = buffered
        return back

    def part(self, reader: ReaderId, *, given_up: bool) -> RangeSet:
        """Free what *reader* held, and return it."""
        freed = self.held.pop(reader, NO_RANGES)
        self._free(freed)
        if given_up:
            self.doubted += len(freed)
        return freed

    def take(self, numbers: RangeSet) -> RangeSet:
        """Know that *numbers* are taken, by whomever; return those that were not known to be."""
        new = numbers - self.taken.runs
        if not new:
            return new
        self.taken = self.taken.plus(new)
        self.ready = self.ready - new
        self.lent = self.lent - new
        self.astray = self.astray - new
        for reader, held in self.held.items():
            self.held[reader] = held - new
        return new

    def _free(self, numbers: RangeSet) -> None:
        self.astray = self.astray | (numbers & self.lent)
        self.ready = self.ready | ((numbers & RangeSet.of((0, self.head))) - self.lent)

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
    """The numbers of one attempt. All below *head* are here, or acked."""

    def __init__(self, head: int, acked: AckedSet, unacked: Mapping[ReaderId, RangeSet]) -> None:
        self.head = head
        self.ready = NO_RANGES
        self.unacked = {reader: ranges - acked.ranges for reader, ranges in unacked.items()}
        self.acked = acked
        self.dropped = NO_RANGES
        """What readers have unacked and is not here any more."""
        self.missing = NO_RANGES
        """What of that was requeued: it is nowhere."""
        self.in_doubt = 0
        """How much was requeued because its reader expired."""

    @property
    def holders(self) -> set[ReaderId]:
        """The readers that have something unacked."""
        return {reader for reader, unacked in self.unacked.items() if unacked}

    def count_existing(self, number: int, *, produced: bool) -> int:
        """Count what exists from *number* on: all if *produced* here, else what readers have."""
        if produced:
            return self.head - number
        unacked = (span for ranges in self.unacked.values() for span in ranges.spans)
        there = RangeSet.of(*self.acked.ranges.spans, *unacked)
        return len(there - RangeSet.of((0, number)))

    def produce(self, start: int, stop: int, mine: RangeSet | None = None) -> RangeSet:
        """Add *start* to *stop*, which are here; return those that are not acked.

        Others than *mine* are not among the numbers that these readers get.
        """
        self.head = max(self.head, stop)
        if mine is None:
            numbers = RangeSet.of((max(start, self.acked.floor), stop)) - self.acked.more
        else:
            numbers = mine - self.acked.ranges
        free = numbers
        for unacked in self.unacked.values():
            free = free - unacked
        self.ready = self.ready | free
        return numbers

    def assign(self, reader: ReaderId, part: RangeSet) -> None:
        """Assign *part*, which was ready, to *reader*."""
        self.ready = self.ready - part
        self.unacked[reader] = self.unacked[reader] | part

    def drop(self, numbers: RangeSet) -> None:
        """Mark those of *numbers* that are not acked as with readers only."""
        self.dropped = self.dropped | (numbers - self.acked.ranges)

    def not_owned(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Return what of *buffered* is not *reader*'s to have."""
        return buffered - self.acked.ranges - self.unacked.get(reader, NO_RANGES)

    def reconcile(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Leave *buffered* alone unacked at *reader*; return what it requeued."""
        buffered = buffered - self.acked.ranges
        back = self.unacked.get(reader, NO_RANGES) - buffered
        self._requeue(back)
        self.unacked[reader] = buffered
        return back

    def remove_reader(self, reader: ReaderId, *, expired: bool) -> RangeSet:
        """Requeue what *reader* had unacked, and return it."""
        freed = self.unacked.pop(reader, NO_RANGES)
        self._requeue(freed)
        if expired:
            self.in_doubt += len(freed)
        return freed

    def ack(self, numbers: RangeSet) -> RangeSet:
        """Mark *numbers* acked; return those that were not."""
        new = numbers - self.acked.ranges
        if not new:
            return new
        self.acked = self.acked.union(new)
        self.ready = self.ready - new
        self.dropped = self.dropped - new
        self.missing = self.missing - new
        for reader, unacked in self.unacked.items():
            self.unacked[reader] = unacked - new
        return new

    def _requeue(self, numbers: RangeSet) -> None:
        self.missing = self.missing | (numbers & self.dropped)
        self.ready = self.ready | ((numbers & RangeSet.of((0, self.head))) - self.dropped)

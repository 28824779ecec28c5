"""Which reader has each number of an attempt.

    not yet ──produced──▶ ready ──assigned──▶ unacked at one reader ──handed out──▶ acked
                            ▲                         │
                            └───────requeued──────────┘

A reader's elements are released in two cases only: its subscription does not list them, or the
dispatcher reports that the reader left or expired. Elements that an assignment lists as buffered
are reserved before they are produced.
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
        """Elements that are unacked at readers and no longer here."""
        self.missing = NO_RANGES
        """Elements of *dropped* that were requeued: no process has them."""
        self.in_doubt = 0
        """How many elements were requeued because their reader expired."""

    @property
    def holders(self) -> set[ReaderId]:
        """The readers that have unacked elements."""
        return {reader for reader, unacked in self.unacked.items() if unacked}

    @property
    def had(self) -> RangeSet:
        """The elements that readers have or had."""
        unacked = (span for ranges in self.unacked.values() for span in ranges.spans)
        return RangeSet.of(*self.acked.ranges.spans, *unacked)

    def produce(self, start: int, stop: int, mine: RangeSet | None = None) -> RangeSet:
        """Add the elements *start* to *stop*, which are here; return those that are not acked.

        With *mine*, these readers get only numbers in *mine*.
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
        """Record that only readers still have *numbers*, except those that are acked."""
        self.dropped = self.dropped | (numbers - self.acked.ranges)

    def not_owned(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Return the numbers in *buffered* that do not belong to *reader*."""
        return buffered - self.acked.ranges - self.unacked.get(reader, NO_RANGES)

    def reconcile(self, reader: ReaderId, buffered: RangeSet) -> RangeSet:
        """Make *buffered* the only unacked numbers of *reader*; return those that it requeued."""
        buffered = buffered - self.acked.ranges
        back = self.unacked.get(reader, NO_RANGES) - buffered
        self._requeue(back)
        self.unacked[reader] = buffered
        return back

    def remove_reader(self, reader: ReaderId, *, expired: bool) -> RangeSet:
        """Requeue the unacked numbers of *reader*, and return them."""
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

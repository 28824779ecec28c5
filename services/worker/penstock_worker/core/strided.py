"""One order for several consumers: each of *n* consumers gets every n-th element.

The readers of a consumer share its elements as the readers of an ordinary job do, so a restarted
reader continues where the one before it stopped. Each frame is one element, and is kept until the
element is acked. To *deal* an element is to make it ready for its consumer. Elements are dealt when
a consumer has none ready, and only until another consumer has `AHEAD` elements ready. Nothing is
dealt until the task's position in the order is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.rounds import STRIDED_NBYTES, Stride
from penstock.protocol.types import ReaderId
from penstock_worker.core.delivery_policy import DeliveryCounts, DeliveryPolicy
from penstock_worker.core.events import Effect
from penstock_worker.core.frame_buffer import BufferedFrame
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.sharing_readers import Sender, SharingReaders, free
from penstock_worker.runner.messages import FrameReady

AHEAD = 1024
"""How many elements may be ready for a consumer that does not read, while others do."""

AT_ONCE = 64
"""How many elements are dealt at a time, at least."""

BURST = 1 << 20
"""Bytes that a stream is sent at a time, unless the first element is larger."""


class Strided(DeliveryPolicy[SharingReaders]):
    """See `DeliveryPolicy`. Each consumer's readers are a group."""

    def __init__(self, assignment: TaskAssignment, stride: Stride, sender: Sender) -> None:
        super().__init__(max(assignment.checkpoint.number, assignment.acked.floor), sender)
        self._acked = assignment.acked
        self._dealt = self.head
        self._stride = stride
        self._consumers: list[SharingReaders] = []
        self._index: dict[ReaderId, int] = {}
        """The consumer index of each reader."""
        unacked: dict[int, dict[ReaderId, RangeSet]] = {}
        for reader, numbers in assignment.unacked.items():
            index = self._index[reader] = stride.index(numbers.spans[0][0])
            unacked.setdefault(index, {})[reader] = numbers
        for index in range(stride.consumers):
            owned = Ownership(self.head, self._acked, unacked.get(index, {}))
            self._consumers.append(SharingReaders(owned, self.frames, sender, ordered=True))

    @property
    def groups(self) -> Iterable[SharingReaders]:
        """One group of readers for each consumer."""
        return self._consumers

    @property
    def acked(self) -> AckedSet:
        """The elements that readers of all consumers acked."""
        return self._acked

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        known = super().counts()
        return known._replace(ready=known.ready + len(self._not_dealt))

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame*, which is element *start*; return False if it is acked."""
        self.head = max(self.head, stop)
        if start >= stop or start in self._acked:
            return False
        self.frames.put(BufferedFrame(start, stop, frame))
        return True

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked; set the position once known."""
        if self._stride.place is None and assignment.stride is not None:
            self._stride = assignment.stride
        super().on_assigned(assignment, out)

    def send_ready(self, out: list[Effect]) -> bool:
        """Send each consumer its elements; return whether the task's position is known."""
        if self._stride.place is None:
            return False
        below = RangeSet.of((0, self._acked.floor))
        for one in self._served:
            if one.ownership.acked.floor < self._acked.floor:
                one.ownership.ack(below)  # what others acked makes its own sets short
            self._send(one, out)
        while any(one.starving for one in self._served) and self._deal():
            for one in self._served:
                self._send(one, out)
        for one in self._served:
            if self._has_all(one):
                one.tell_all_sent(out)
        return True

    # --- inside ---

    @property
    def _served(self) -> Iterator[SharingReaders]:
        """The consumers that have streams."""
        return (one for one in self._consumers if one.streams)

    @property
    def _not_dealt(self) -> RangeSet:
        """The elements that are here and not dealt."""
        if self._dealt >= self.head:
            return NO_RANGES  # the usual case, which needs no look at acked elements
        return RangeSet.of((self._dealt, self.head)) - self._acked.ranges

    def _has_unsent(self, one: SharingReaders) -> bool:
        return bool(one.ownership.ready or self._not_dealt)

    def _has_all(self, one: SharingReaders) -> bool:
        return self._stride.place is not None and super()._has_all(one)

    @property
    def _first_unsent(self) -> int:
        return min(super()._first_unsent, self._dealt)

    def _drop(self, numbers: RangeSet) -> None:
        for index, one in enumerate(self._consumers):
            each = (self._stride.numbers(index, *span).spans for span in numbers.spans)
            one.ownership.drop(RangeSet.of(*chain.from_iterable(each)))

    def _deal(self) -> bool:
        """Deal the next elements; return False if there are none, or a consumer has too many."""
        count = self._stride.consumers
        if self._dealt >= self.head or (count > 1 and self._is_ahead):
            return False
        start, self._dealt = self._dealt, min(self.head, self._dealt + max(AT_ONCE, count))
        for index, one in enumerate(self._consumers):
            mine = self._stride.numbers(index, start, self._dealt)
            one.ownership.produce(start, self._dealt, mine)
        return True

    @property
    def _is_ahead(self) -> bool:
        return any(len(one.ownership.ready.spans) >= AHEAD for one in self._consumers)

    def _send(self, one: SharingReaders, out: list[Effect]) -> None:
        one.send_ready(out, ended=self.total is not None, burst=BURST, charge=STRIDED_NBYTES)

    def _ack(self, numbers: RangeSet, groups: Iterable[SharingReaders], out: list[Effect]) -> None:
        new = numbers - self._acked.ranges
        if not new:
            return
        self._acked = self._acked.union(new)
        self._sender.count_acked(len(new))
        for one in groups:
            one.ownership.ack(new)
        free(self.frames.release(new, self._acked), out)

    def _why_not(self, request: Subscribe) -> str:
        reader, index, count = request.reader, request.consumer, self._stride.consumers
        if index is None:
            return f"has consumers, and reader {reader} is none of them"
        if not 0 <= index < count:
            return f"has {count} consumers, and reader {reader} is consumer {index}"
        before = self._index.get(reader, index)
        if before != index:
            return f"has consumers, and reader {reader}, which was {before}, cannot be {index}"
        return super()._why_not(request)

    def _join(self, request: Subscribe) -> SharingReaders:
        index = self._index[request.reader] = request.consumer or 0
        return self._consumers[index]

    def _group(self, reader: ReaderId) -> SharingReaders:
        return self._consumers[self._index[reader]]

"""One order for several consumers: each of *n* consumers gets every n-th element.

Each consumer has an `Ownership` over the same frames. Its readers share its elements as the readers
of an ordinary job do, so a restarted reader continues where the one before it stopped. Each frame
is one element, and is kept until the element is acked. To *deal* an element is to make it ready for
its consumer. Elements are dealt when a consumer has none ready, and only until another consumer has
`AHEAD` elements ready. Nothing is dealt until the task's position in the order is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.protocol.rounds import STRIDED_NBYTES, Stride
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.delivery_policy import DeliveryCounts, Parting, Sender, free
from penstock_worker.core.events import Effect, StreamId
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.sharing_readers import SharingReaders, refuse
from penstock_worker.core.streams import ReadStream
from penstock_worker.runner.messages import FrameReady

AHEAD = 1024
"""How many elements may be ready for a consumer that does not read, while others do."""

AT_ONCE = 64
"""How many elements are dealt at a time, at least."""

BURST = 1 << 20
"""Bytes that a stream is sent at a time, unless the first element is larger."""


class Strided:
    """See `DeliveryPolicy`."""

    def __init__(self, assignment: TaskAssignment, stride: Stride, sender: Sender) -> None:
        self.acked = assignment.acked
        """The elements that readers of all consumers acked."""
        self.head = max(assignment.checkpoint.number, self.acked.floor)
        self.total: int | None = None
        self._dealt = self.head
        self._stride, self._sender, self._frames = stride, sender, FrameBuffer()
        self._consumers: list[SharingReaders] = []
        self._index: dict[ReaderId, int] = {}
        """The consumer index of each reader."""
        unacked: dict[int, dict[ReaderId, RangeSet]] = {}
        for reader, numbers in assignment.unacked.items():
            index = self._index[reader] = stride.index(numbers.spans[0][0])
            unacked.setdefault(index, {})[reader] = numbers
        for index in range(stride.consumers):
            owned = Ownership(self.head, self.acked, unacked.get(index, {}))
            self._consumers.append(SharingReaders(owned, self._frames, sender, ordered=True))

    @property
    def nbytes(self) -> int:
        """The bytes of the frames that are kept."""
        return self._frames.nbytes

    @property
    def done(self) -> bool:
        """Whether all elements are acked."""
        return self.total is not None and self.acked.floor >= self.total

    @property
    def all_sent(self) -> bool:
        """Whether readers have all elements; false if one must be produced again."""
        return all(map(self._has_all, self._consumers))

    @property
    def lost(self) -> bool:
        """Whether a requeued element is no longer here."""
        return any(one.ownership.missing for one in self._consumers)

    @property
    def in_doubt(self) -> int:
        """How many elements were requeued because their reader expired."""
        return sum(one.ownership.in_doubt for one in self._consumers)

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        return set(chain.from_iterable(one.readers for one in self._consumers))

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return nothing: consumers do not belong to trainers."""
        return {}

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        each = [one.counts() for one in self._consumers]
        ready = sum(one.ready for one in each) + len(self._not_dealt)
        return DeliveryCounts(
            ready, sum(one.unacked for one in each), sum(one.streams for one in each)
        )

    def count_existing(self, number: int, *, produced: bool) -> int:
        """See `Ownership.count_existing`."""
        if produced:
            return self.head - number
        unacked = (each.spans for one in self._consumers for each in one.ownership.unacked.values())
        there = RangeSet.of(*self.acked.ranges.spans, *chain.from_iterable(unacked))
        return len(there - RangeSet.of((0, number)))

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame*, which is element *start*; return False if it is acked."""
        self.head = max(self.head, stop)
        if start >= stop or start in self.acked:
            return False
        self._frames.put(BufferedFrame(start, stop, frame))
        return True

    def on_ended(self, number: int, _out: list[Effect]) -> None:
        """Record that there are *number* elements, or more if another runner produced more."""
        self.total = max(number, self.head)

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        return self._frames.of(run)

    def shed(self) -> list[FrameReady]:
        """Remove and return the oldest sent frames, if readers' operators want more.

        The readers have the elements of these frames, and will hardly requeue them.
        """
        if not any(one.any_has_operators() for one in self._served):
            return []
        ready = (one.ownership.ready.spans for one in self._consumers)
        first = min((spans[0][0] for spans in ready if spans), default=self._dealt)
        shed = self._frames.shed(below=min(first, self._dealt))
        numbers = RangeSet.of(*((frame.start, frame.stop) for frame in shed))
        for index, one in enumerate(self._consumers):
            one.ownership.drop(self._of(index, numbers))
        return [frame.frame for frame in shed]

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        return self._frames.clear()

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Reconcile the reader's unacked elements, and add its stream; return None if refused."""
        index = request.consumer
        if index is None or (why := self._why_not(request, index)):
            alone = f"has consumers, and reader {request.reader} is none of them"
            refuse(self._sender, name, alone if index is None else why, out)
            return None
        one = self._consumers[index]
        if not one.may_open(name, request, out):
            return None
        self._index[request.reader] = index
        self._ack(request.acked.ranges, self._consumers, out)
        return one.open(name, request, out)

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack elements that were sent, and add the stream's new credit."""
        stream.on_ack(ack)
        self._ack(ack.acked, [self._consumers[self._index[stream.reader]]], out)

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        stream.writable = True

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        self._consumers[self._index[stream.reader]].close(stream)

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """Requeue the unacked elements of *reader*, for other readers of its consumer."""
        self._consumers[self._index[reader]].remove_reader(reader, status, out)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked; set the position once known."""
        if self._stride.place is None and assignment.stride is not None:
            self._stride = assignment.stride
        self._ack(assignment.acked.ranges, self._consumers, out)

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        for one in self._consumers:
            one.on_tick()

    def send_ready(self, out: list[Effect]) -> bool:
        """Send each consumer its elements; return whether the task's position is known."""
        if self._stride.place is None:
            return False
        below = RangeSet.of((0, self.acked.floor))
        for one in self._served:
            if one.ownership.acked.floor < self.acked.floor:
                one.ownership.ack(below)  # what others acked makes its own sets short
            self._send(one, out)
        while any(one.starving for one in self._served) and self._deal():
            for one in self._served:
                self._send(one, out)
        for one in self._served:
            if self._has_all(one):
                one.tell_all_sent(out)
        return True

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        return any(one.starving and one.wants_flush() for one in self._served)

    def recall(self, out: list[Effect]) -> None:
        """Ask readers to requeue elements that other readers of their consumer wait for."""
        for one in self._served:
            if not (one.ownership.ready or self._not_dealt):
                one.recall(out, ended=self.total is not None)

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End the streams of consumers that have all their elements."""
        for one in self._served:
            if self.done or not (one.ownership.ready or self._not_dealt):
                one.end_streams(failure, out)

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        for one in self._consumers:
            one.end_streams(failure, out)

    def parting(self, *, failed: bool) -> Parting:
        """Return when to hand over; the next worker serves consumers without readers."""
        served = list(self._served)
        has_holders = any(one.ownership.holders for one in self._consumers)
        if not served and (failed or not has_holders):
            return Parting.NOW
        if any(one.ownership.ready for one in served) or failed:
            return Parting.LATER
        if has_holders:
            waits = self.total is None and all(one.all_waiting() for one in self._consumers)
            return Parting.NOW if waits else Parting.LATER
        return Parting.AT_CHECKPOINT

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
        return RangeSet.of((self._dealt, self.head)) - self.acked.ranges

    def _has_all(self, one: SharingReaders) -> bool:
        """Return whether a consumer's readers have all its elements."""
        if self.total is None or self._stride.place is None:
            return False
        return not (one.ownership.ready or one.ownership.missing or self._not_dealt)

    def _of(self, index: int, numbers: RangeSet) -> RangeSet:
        """Return those of *numbers* that belong to consumer *index*."""
        each = (self._stride.numbers(index, *span).spans for span in numbers.spans)
        return RangeSet.of(*chain.from_iterable(each))

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

    def _ack(self, numbers: RangeSet, consumers: list[SharingReaders], out: list[Effect]) -> None:
        """Mark *numbers*, which belong to *consumers*, acked; irrevocable and idempotent."""
        new = numbers - self.acked.ranges
        if not new:
            return
        self.acked = self.acked.union(new)
        self._sender.count_acked(len(new))
        for one in consumers:
            one.ownership.ack(new)
        free(self._frames.release(new, self.acked), out)

    def _why_not(self, request: Subscribe, index: int) -> str:
        """Return why a reader may not read, as a sentence about the task; "" if it may."""
        reader, count = request.reader, self._stride.consumers
        if request.trainer:
            return f"is not cached: a reader of it has no trainer {request.trainer!r}"
        if not 0 <= index < count:
            return f"has {count} consumers, and reader {reader} is consumer {index}"
        before = self._index.get(reader, index)
        if before != index:
            return f"has consumers, and reader {reader}, which was {before}, cannot be {index}"
        return ""

"""Coordinated reads: each element goes to the consumer that it belongs to, group by group.

Element ``base + g * consumers + i`` belongs to consumer *i*, whichever process reads as consumer
*i* (see `penstock.protocol.rounds`). Each frame is one element. A frame is kept until every
consumer has taken the elements up to it; the *floor* is the first number after these. Sending a
frame does not free it, because a restarted consumer needs it again.

If there is no room for an element that a consumer waits for, the oldest sent frames are dropped. If
one of them is needed again, the attempt ends, and the next attempt produces everything from the
floor on.
"""

from __future__ import annotations

from penstock.errors import Refused
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import ELEMENT_NBYTES, Grouped, Remainder
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.delivery_policy import (
    DeliveryCounts,
    DeliveryPolicy,
    Parting,
    parting_if_remade,
)
from penstock_worker.core.events import Effect, HeartbeatDue, StreamId
from penstock_worker.core.frame_buffer import SHED
from penstock_worker.core.sharing_readers import ReadStream, Sender, SharingReaders, free
from penstock_worker.runner.messages import FrameReady

BURST = 1 << 20
"""Bytes that a stream is sent at a time, unless the first element is larger."""

HEADER = 256
"""Bytes that each element's header counts in a burst, even if the element is small."""


class RoundGroups(DeliveryPolicy[SharingReaders]):
    """See `DeliveryPolicy`. A consumer has at most one stream, from its newest reader."""

    nbytes = 0
    lost = False
    all_sent = False
    """The log of rounds tells whether there are more."""

    def __init__(self, assignment: TaskAssignment, grouped: Grouped, sender: Sender) -> None:
        self.floor = assignment.acked.floor
        """All consumers have taken all elements below this one."""
        super().__init__(max(assignment.checkpoint.number, self.floor), sender)
        self._grouped = grouped
        self._frames: dict[int, FrameReady] = {}
        """Frames by element number, in ascending order."""
        self._streams: dict[int, ReadStream] = {}
        self._next: dict[int, int] = {}
        """The next group to send to each consumer, even while it has no stream."""
        self._newest: dict[int, tuple[ReaderId, int]] = {}
        """The newest reader of each consumer, and its newest subscription."""
        self._due: set[int] = set()
        """The consumers for which there may be something to send."""
        self._consumers: dict[StreamId, int] = {}
        """The consumer of each stream."""

    @property
    def acked(self) -> AckedSet:
        """All below the floor."""
        return AckedSet(self.floor)

    @property
    def done(self) -> bool:
        """Whether all consumers have taken all their groups."""
        return self.total is not None and self.floor >= self._end

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream."""
        return {stream.reader for stream in self._streams.values()}

    def counts(self) -> DeliveryCounts:
        """Return how many frames wait to be sent, and how many others are kept."""
        sent = sum(map(self._was_sent, self._frames))
        return DeliveryCounts(len(self._frames) - sent, sent, len(self._streams))

    def _count_had(self, number: int) -> int:
        """Count elements from *number* on that consumers have taken."""
        return self.floor - number

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame*, which is element *start*; return False if it is not needed."""
        self.head = max(self.head, stop)
        if start >= stop or start < self.floor:
            return False
        self._frames[start] = frame
        self.nbytes += frame.nbytes
        self._due.add(self._place(start)[1])
        return True

    def on_ended(self, number: int, out: list[Effect]) -> None:
        """Record that there are *number* elements, and free frames that are left out."""
        groups = self._grouped.count(number, ended=True)
        # Consumers may have taken filler of an attempt before: the floor is no element then.
        filled = self.head == self.floor == self._grouped.floor(groups)
        self.total = number if filled else max(number, self.head)
        self.head = self.total
        self._due |= self._streams.keys()
        free([self._remove(n) for n in list(self._frames) if n >= self._end], out)
        out.append(HeartbeatDue())  # readers that wait for more need not

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        return tuple(frame for frame in self._frames.values() if frame.run == run)

    def shed(self) -> list[FrameReady]:
        """Remove and return the oldest sent frames, if streams want elements not made yet."""
        if not any(s.wants_frame and self._wanted(i) is None for i, s in self._streams.items()):
            return []
        enough, shed = self.nbytes // SHED, []
        for number in list(self._frames):
            if self._was_sent(number):
                shed.append(self._remove(number))
                enough -= shed[-1].nbytes
                if enough <= 0:
                    break
        return shed

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        frames, self._frames, self.nbytes = list(self._frames.values()), {}, 0
        return frames

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Add a consumer's stream at the position it asks for; return None if it is refused."""
        wants = request.wants
        if request.trainer:
            self._refuse(name, f"names a trainer, {request.trainer!r}, and it is not cached", out)
            return None
        if wants is None or not 0 <= wants.index < self._grouped.consumers:
            many = self._grouped.consumers
            self._refuse(name, f"does not say as which of its {many} consumers it reads", out)
            return None
        newest = request.reader, request.subscription
        if newest <= self._newest.get(wants.index, (0, 0)):
            self._sender.end(name, out)
            return None
        self.ack(request.acked.ranges, out)
        if wants.group < self._floor_group:
            who, floor = f"group {wants.group} of consumer {wants.index}", self._floor_group
            why = f"wants {who}, and all consumers have taken the groups below {floor}"
            self._refuse(name, why, out)
            return None
        self._newest[wants.index] = newest
        self._end_stream(wants.index, out)
        stream = ReadStream(name, request.reader, request.subscription, request.credit)
        self._streams[wants.index], self._consumers[name] = stream, wants.index
        self._next[wants.index] = wants.group
        self._due.add(wants.index)
        return stream

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Add the stream's new credit; the floor may have moved."""
        stream.credit += ack.credit
        self._note_due(stream)
        self.ack(ack.acked, out)

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        super().on_writable(stream)
        self._note_due(stream)

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        index = self._consumers.pop(stream.id, None)
        if index is not None:
            del self._streams[index]

    def remove_reader(self, reader: ReaderId, _status: ReaderStatus, out: list[Effect]) -> None:
        """End the stream of *reader*; its consumer keeps the elements that it has not taken."""
        for index in [i for i, stream in self._streams.items() if stream.reader == reader]:
            self._end_stream(index, out)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Move the floor to the dispatcher's floor."""
        self.ack(assignment.acked.ranges, out)

    def ack(self, numbers: RangeSet, out: list[Effect]) -> None:
        """Move the floor to the end of *numbers*, if they begin with the first element."""
        floor = numbers.spans[0][1] if numbers.spans and numbers.spans[0][0] == 0 else 0
        if floor <= self.floor:
            return
        self._sender.count_acked(floor - self.floor)
        self.floor = floor
        passed = []
        for number in self._frames:
            if number >= floor:
                break
            passed.append(number)
        free([self._remove(number) for number in passed], out)

    def send_ready(self, out: list[Effect]) -> bool:
        """Send each stream with credit its next element, if that has been produced."""
        due, self._due = self._due, set()
        for index in sorted(due & self._streams.keys()):
            stream, group = self._streams[index], self._next[index]
            if group < self._floor_group:  # a newer process of this consumer took more
                self._end_stream(index, out)
            elif stream.wants_frame:
                self._send_burst(index, stream, out)
        return True

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End with *failure* the streams that have all elements before it."""
        if failure is not None:
            for index in [i for i in self._streams if self._wanted(i) is None]:
                self._end_stream(index, out, failure)

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        for index in list(self._streams):
            self._end_stream(index, out, failure)

    def parting(self, *, failed: bool) -> Parting:
        """Return when to hand over; the next attempt remakes elements that a consumer lacks."""
        return parting_if_remade(self, failed=failed)

    # --- inside ---

    @property
    def _floor_group(self) -> int:
        return (self.floor - self._grouped.base) // self._grouped.consumers

    @property
    def _end(self) -> int:
        """The number after the last group; no consumer gets elements from there on."""
        groups = self._grouped.count(self.total or 0, ended=True)
        return self._grouped.floor(groups)

    def _place(self, number: int) -> tuple[int, int]:
        """Return group and consumer of an element."""
        return divmod(number - self._grouped.base, self._grouped.consumers)

    def _was_sent(self, number: int) -> bool:
        group, index = self._place(number)
        return group < self._next.get(index, 0)

    def _wanted(self, index: int) -> int | None:
        """Return the number of a consumer's next element, if that has been produced."""
        group = self._next[index]
        if self.total is not None and group >= self._grouped.count(self.total, ended=True):
            return None
        number = self._grouped.element(group, index, self.total)
        return number if number < self.head else None

    def _send_burst(self, index: int, stream: ReadStream, out: list[Effect]) -> None:
        """Send a stream its buffered elements, up to `BURST` bytes; it then reports new room.

        If elements are small, one message for each would cost more than the elements do.
        """
        nbytes = 0
        while stream.credit > 0 and (number := self._wanted(index)) is not None:
            frame = self._frame(index, number)
            if frame is None:
                self.lost = True
                return
            nbytes += frame.nbytes + HEADER
            if nbytes > max(BURST, frame.nbytes + HEADER):
                return
            self._send(index, stream, frame, out)

    def _frame(self, index: int, number: int) -> FrameReady | None:
        """Return the frame to send to a consumer as element *number*."""
        group, owner = self._place(number)
        return self._frames.get(number) if owner == index else self._filler(group, number)

    def _send(self, index: int, stream: ReadStream, frame: FrameReady, out: list[Effect]) -> None:
        group = self._next[index]
        self._next[index] = group + 1
        padding = self._grouped.remainder is Remainder.PAD
        filler = padding and self._place(frame.first)[1] != index
        ranges = RangeSet(((frame.first, frame.first + 1),))
        self._sender.send(stream, frame, ranges, self.floor, out, (group, filler))
        stream.credit -= ELEMENT_NBYTES

    def _filler(self, group: int, number: int) -> FrameReady | None:
        """Return the frame of *number*, or of another element of its group if that was dropped.

        The frame of the last element is never dropped.
        """
        others = range(self._grouped.floor(group), self.head)
        here = (self._frames[n] for n in (number, *others) if n in self._frames)
        return next(here, None)

    def _note_due(self, stream: ReadStream) -> None:
        index = self._consumers.get(stream.id)
        if index is not None:
            self._due.add(index)

    def _remove(self, number: int) -> FrameReady:
        frame = self._frames.pop(number)
        self.nbytes -= frame.nbytes
        return frame

    def _end_stream(self, index: int, out: list[Effect], failure: Failure | None = None) -> None:
        if (stream := self._streams.pop(index, None)) is not None:
            del self._consumers[stream.id]
            self._sender.end(stream.id, out, failure)

    def _refuse(self, name: StreamId, why: str, out: list[Effect]) -> None:
        text = f"a reader of task {self._sender.task}, attempt {self._sender.attempt}, {why}"
        self._sender.end(name, out, Failure.of(Refused(text)))

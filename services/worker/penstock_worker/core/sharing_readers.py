"""Readers that share elements: each element goes to one reader that has room.

The readers of an ordinary job share its elements. The readers of one consumer, or of one trainer,
share those of the consumer or trainer. If a reader leaves or expires, its unacked elements go to
the others. The policy decides when to free a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from penstock.errors import Refused
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, AllSent, FrameHeader, Recall, StreamEnd, Subscribe
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.counters import AttemptCounters, WorkerCounters
from penstock_worker.core.events import (
    Effect,
    HeartbeatDue,
    LogError,
    SendAllSent,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StreamId,
)
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.runner.messages import FrameReady, FreeFrames

CHEAP = 64 * 1024
"""Payload bytes that may go to several readers, each for a part, before a pass ends."""

EAGER = 4
"""A reader with fewer unacked frames than this does not wait for a frame to fill."""

WAITS = 4
"""Ticks for which a report counts that a loop waits with all its elements in operators."""

PATIENCE = 8
"""Ticks without an ack after which a loop that reads in order gives its elements to other readers.
They get these late, after later elements, which a loop that makes progress must not cause."""

TAKEOVER = 4
"""Ticks for which a new reader of an ordered task may wait for elements of one that has no stream.
Perhaps that one has just left, and the dispatcher's word about it comes after its successor."""


@dataclass(slots=True)
class ReadStream:
    """A reader's stream and its credit. A new stream asks for one frame."""

    id: StreamId
    reader: ReaderId
    subscription: int
    credit: int
    writable: bool = True
    recalled: bool = False
    waiting_ticks: int = 0
    """Ticks for which its loop is known to wait, though it has something unacked."""
    has_operators: bool = False
    """Whether operators after its reader ever had elements and did not ack them."""
    all_sent: bool = False
    """Whether its reader was told that all is sent."""
    quiet_ticks: int = 0
    """Ticks since its loop consumed something."""
    ticks: int = 0
    """Ticks since it was opened."""

    @property
    def wants_frame(self) -> bool:
        """Whether it has room for a frame now."""
        return self.writable and self.credit > 0

    def on_ack(self, ack: Ack) -> None:
        """Add credit, and note whether its loop waits."""
        self.credit += ack.credit
        if ack.acked:
            self.recalled, self.waiting_ticks, self.quiet_ticks = False, 0, 0
        elif not ack.credit:
            # A recall that came while its loop did not wait was of no use.
            self.recalled, self.waiting_ticks, self.has_operators = False, WAITS, True

    def on_sent(self, nbytes: int) -> None:
        """Record that a frame was sent on it."""
        self.writable, self.waiting_ticks = False, 0
        self.credit -= nbytes

    def on_tick(self) -> None:
        """Allow another recall: a loop that asked then may not be asking now."""
        self.recalled, self.waiting_ticks = False, max(0, self.waiting_ticks - 1)
        self.quiet_ticks += 1
        self.ticks += 1


class Sender:
    """Sends an attempt's frames to readers, and counts them."""

    def __init__(
        self, assignment: TaskAssignment, counters: AttemptCounters, worker: WorkerCounters
    ) -> None:
        self.task, self.attempt = assignment.task, assignment.attempt
        self.counters, self.worker_counters = counters, worker

    def send(
        self,
        stream: ReadStream,
        frame: FrameReady,
        ranges: RangeSet,
        floor: int,
        out: list[Effect],
        group: tuple[int, bool] = (0, False),
    ) -> None:
        """Send *frame*, of which *ranges* are the reader's; all elements below *floor* are acked.

        *group* is the group's number, and whether the frame is filler for it.
        """
        stream.on_sent(frame.nbytes)
        self.counters.sent += len(ranges)
        self.worker_counters.add_sent(len(ranges), frame.nbytes)
        whose = (self.task, self.attempt, stream.subscription)
        which = (frame.first, frame.count, floor)
        how = (frame.layout, frame.codec, frame.raw_nbytes)
        header = FrameHeader(*whose, *which, ranges, *how, *group)
        out.append(SendFrame(stream.id, header, frame))

    def end(self, stream: StreamId, out: list[Effect], failure: Failure | None = None) -> None:
        """End a stream."""
        out.append(SendEnd(stream, StreamEnd(self.task, self.attempt, failure)))

    def refuse(self, stream: StreamId, why: str, out: list[Effect]) -> None:
        """End a stream because of *why*, a sentence about the task."""
        self.end(stream, out, Failure.of(Refused(f"task {self.task} {why}")))

    def count_acked(self, elements: int) -> None:
        """Count elements that are acked now."""
        self.worker_counters.elements_acked += elements

    def count_requeued(self, elements: int) -> None:
        """Count requeued elements."""
        self.counters.requeued += elements
        self.worker_counters.requeued += elements


class SharingReaders:
    """The readers of the elements in *ownership*, whose frames are in *frames*."""

    def __init__(
        self, ownership: Ownership, frames: FrameBuffer, sender: Sender, *, ordered: bool = False
    ) -> None:
        self.ownership = ownership
        self.streams: dict[ReaderId, ReadStream] = {}
        self._frames, self._sender = frames, sender
        self._patience, self._takeover = (PATIENCE, TAKEOVER) if ordered else (0, 0)
        self._subscriptions: dict[ReaderId, int] = {}

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        return {*self.ownership.unacked, *self.streams}

    @property
    def starving(self) -> bool:
        """Whether some stream wants more than is ready."""
        return not self.ownership.ready and self._next() is not None

    # --- streams ---

    def is_superseded(self, request: Subscribe) -> bool:
        """Return whether its reader opened a newer stream."""
        return self._subscriptions.get(request.reader, 0) >= request.subscription

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Reconcile the reader's unacked elements, and add its stream; return None if refused."""
        if stray := self.ownership.not_owned(request.reader, request.buffered):
            self._refuse_stray(name, request.reader, stray, out)
            return None
        requeued = self.ownership.reconcile(request.reader, request.buffered)
        self._sender.count_requeued(len(requeued))
        self._subscriptions[request.reader] = request.subscription
        stream = ReadStream(name, request.reader, request.subscription, request.credit)
        if (before := self.streams.pop(request.reader, None)) is not None:
            stream.has_operators = before.has_operators
            self._sender.end(before.id, out)
        self.streams[request.reader] = stream
        return stream

    def ack(self, numbers: RangeSet) -> RangeSet:
        """Mark *numbers* acked; return those that were not."""
        new = self.ownership.ack(numbers)
        self._sender.count_acked(len(new))
        return new

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        if self.streams.get(stream.reader) is stream:
            del self.streams[stream.reader]

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """Requeue the unacked elements of *reader*."""
        self._subscriptions.pop(reader, None)
        if (stream := self.streams.pop(reader, None)) is not None:
            self._sender.end(stream.id, out)
        expired = status is ReaderStatus.EXPIRED
        freed = self.ownership.remove_reader(reader, expired=expired)
        if expired:
            self._sender.worker_counters.in_doubt += len(freed)
            out.append(HeartbeatDue())
        else:
            self._sender.count_requeued(len(freed))

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        for stream in self.streams.values():
            self._sender.end(stream.id, out, failure)
        self.streams.clear()

    # --- who gets the next frame ---

    def send_ready(
        self, out: list[Effect], *, ended: bool, burst: int = 0, charge: int = 0
    ) -> bool:
        """Send frames; return whether nothing is left to send.

        A stream gets one frame at a time, or frames up to *burst* bytes. Each frame takes *charge*
        more bytes of its credit.
        """
        while self.ownership.ready:
            stream = self._next()
            if stream is None:
                return False
            left = burst
            while True:
                left -= self._send_next(stream, out, ended=ended) + charge
                stream.credit -= charge
                if left <= 0 or stream.credit <= 0 or not self.ownership.ready:
                    break
        return True

    def tell_all_sent(self, out: list[Effect]) -> None:
        """Tell each reader, once for each stream, that it gets no more elements."""
        may_come_back = not self.ownership.holders <= self.streams.keys()
        for stream in self.streams.values():
            waits = may_come_back and stream.ticks < self._takeover
            if not (stream.all_sent or waits):
                stream.all_sent = True
                told = AllSent(self._sender.task, self._sender.attempt, stream.subscription)
                out.append(SendAllSent(stream.id, told))

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        unacked, frames = self.ownership.unacked, self._frames
        return any(
            stream.wants_frame and frames.count_touched(unacked[stream.reader], EAGER) < EAGER
            for stream in self.streams.values()
        )

    def any_has_operators(self) -> bool:
        """Return whether some stream needs more elements than it may ever requeue."""
        return any(stream.has_operators and stream.wants_frame for stream in self.streams.values())

    def in_operators(self) -> RangeSet:
        """Return unacked elements of readers whose operators need more than they may requeue."""
        streams, unacked = self.streams.values(), self.ownership.unacked
        spans = (unacked[s.reader].spans for s in streams if s.has_operators)
        return RangeSet.of(*chain.from_iterable(spans))

    def all_waiting(self) -> bool:
        """Return whether the loops of all readers with unacked elements wait themselves."""
        return self.ownership.holders <= {
            s.reader for s in self.streams.values() if s.waiting_ticks
        }

    def recall(self, out: list[Effect], *, ended: bool) -> None:
        """Ask readers to requeue elements that other readers wait for."""
        sender = self._sender
        for stream, flush in self._recalls(ended=ended):
            sender.worker_counters.recalls += 1
            out.append(SendRecall(stream.id, Recall(sender.task, sender.attempt, flush)))

    # --- inside ---

    def _next(self) -> ReadStream | None:
        """Return the stream for the next frame: one whose loop waits, or the one with least."""
        hungry = (stream for stream in self.streams.values() if stream.wants_frame)
        unacked = self.ownership.unacked
        return min(
            hungry, key=lambda s: (not s.waiting_ticks, len(unacked[s.reader])), default=None
        )

    def _send_next(self, stream: ReadStream, out: list[Effect], *, ended: bool) -> int:
        """Send a reader the first frame that is ready, or its share; return the frame's bytes."""
        frame = self._frames.at(self.ownership.ready.spans[0][0])
        part = self._share(frame, ended=ended)
        floor = self.ownership.acked.floor
        self.ownership.assign(stream.reader, part)
        self._sender.send(stream, frame.frame, part, floor, out)
        return frame.frame.nbytes

    def _share(self, frame: BufferedFrame, *, ended: bool) -> RangeSet:
        """Return the part of *frame* for one reader: a fair share if some starve."""
        ready = self.ownership.ready
        part = ready & frame.span
        waiting = sum(1 for stream in self.streams.values() if self._is_empty(stream))
        if waiting < 2 or self._frames.count_touched(ready, waiting) >= waiting:
            return part
        if not ended and frame.frame.nbytes > CHEAP:
            return part
        return _lowest(part, -(-len(ready) // waiting))

    def _recalls(self, *, ended: bool) -> Iterator[tuple[ReadStream, bool]]:
        """Yield streams with unacked elements that a starving reader needs, and whether to flush.

        Once all is produced, operators of loops that wait themselves have to make do with what they
        have: these are yielded with True. Recalls between them would go to and fro.
        """
        empty = {s.reader for s in self.streams.values() if self._is_empty(s)}
        all_waiting = ended and self.all_waiting()
        for stream in self.streams.values():
            if stream.recalled:
                continue
            has_unacked = bool(self.ownership.unacked[stream.reader])
            waits = stream.waiting_ticks > 0 or stream.reader in empty
            flush = waits and (all_waiting or (ended and has_unacked))
            patient = stream.quiet_ticks < self._patience
            if flush or (empty and has_unacked and not waits and not patient):
                stream.recalled = True
                yield stream, flush

    def _is_empty(self, stream: ReadStream) -> bool:
        return stream.wants_frame and not self.ownership.unacked[stream.reader]

    def _refuse_stray(
        self, name: StreamId, reader: ReaderId, stray: RangeSet, out: list[Effect]
    ) -> None:
        text = (
            f"law 5: reader {reader} buffers {stray.spans} of task {self._sender.task}, attempt "
            f"{self._sender.attempt}, which is not reserved for it; this is a bug"
        )
        out.append(LogError(text, self._sender.task, self._sender.attempt))
        self._sender.end(name, out, Failure("PenstockError", (text,)))


def free(frames: Iterable[FrameReady], out: list[Effect]) -> None:
    """Tell runners that they may overwrite *frames*."""
    offsets: dict[int, list[int]] = {}
    for frame in frames:
        offsets.setdefault(frame.run, []).append(frame.offset)
    out.extend(SendToRunner(FreeFrames(run, tuple(places))) for run, places in offsets.items())


def _lowest(numbers: RangeSet, count: int) -> RangeSet:
    """Return the *count* lowest of *numbers*."""
    spans = []
    for start, stop in numbers.spans:
        if count <= 0:
            break
        spans.append((start, min(stop, start + count)))
        count -= stop - start
    return RangeSet(tuple(spans))

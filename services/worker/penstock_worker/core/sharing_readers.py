"""Readers that share elements: each element goes to one reader that has room.

When a reader leaves or expires, its unacked elements go to the others. The caller decides when to
free a frame.
"""

from __future__ import annotations

from itertools import chain

from penstock.errors import Refused
from penstock.protocol.data import AllSent, Recall, Subscribe
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.delivery_policy import DeliveryCounts, Sender
from penstock_worker.core.events import (
    Effect,
    HeartbeatDue,
    LogError,
    SendAllSent,
    SendRecall,
    StreamId,
)
from penstock_worker.core.frame_buffer import FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.streams import ReadStream, StreamScheduler


class SharingReaders:
    """The readers of the elements in *ownership*, whose frames are in *frames*."""

    def __init__(
        self, ownership: Ownership, frames: FrameBuffer, sender: Sender, *, ordered: bool = False
    ) -> None:
        self.ownership = ownership
        self._frames, self._sender = frames, sender
        self._scheduler = StreamScheduler(frames, ownership, ordered=ordered)

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return len(self._scheduler.streams)

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        return {*self.ownership.unacked, *self._scheduler.streams}

    @property
    def starving(self) -> bool:
        """Whether some stream wants more than is ready."""
        return not self.ownership.ready and self._scheduler.next() is not None

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        unacked = sum(map(len, self.ownership.unacked.values()))
        return DeliveryCounts(len(self.ownership.ready), unacked, self.streams)

    def may_open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> bool:
        """Count the acks of a new stream; return whether to open it, and end it if not."""
        if self._scheduler.is_superseded(request):
            self._sender.end(name, out)
            return False
        if request.wants is not None:
            why = "is not read in groups: its reads are not coordinated"
            refuse(self._sender, name, why, out)
            return False
        return True

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Reconcile the reader's unacked elements, and add its stream; return None if refused."""
        if stray := self.ownership.not_owned(request.reader, request.buffered):
            self._refuse_stray(name, request.reader, stray, out)
            return None
        requeued = self.ownership.reconcile(request.reader, request.buffered)
        self._sender.count_requeued(len(requeued))
        stream, before = self._scheduler.open(name, request)
        if before is not None:
            self._sender.end(before.id, out)
        return stream

    def ack(self, numbers: RangeSet) -> RangeSet:
        """Mark *numbers* acked; return those that were not."""
        new = self.ownership.ack(numbers)
        self._sender.count_acked(len(new))
        return new

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        self._scheduler.remove(stream)

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """Requeue the unacked elements of *reader*."""
        stream = self._scheduler.remove_reader(reader)
        if stream is not None:
            self._sender.end(stream.id, out)
        expired = status is ReaderStatus.EXPIRED
        freed = self.ownership.remove_reader(reader, expired=expired)
        if expired:
            self._sender.worker_counters.in_doubt += len(freed)
            out.append(HeartbeatDue())
        else:
            self._sender.count_requeued(len(freed))

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        for stream in self._scheduler.streams.values():
            stream.on_tick()

    def send_ready(
        self, out: list[Effect], *, ended: bool, burst: int = 0, charge: int = 0
    ) -> bool:
        """Send frames; return whether nothing is left to send.

        A stream gets one frame at a time, or frames up to *burst* bytes. Each frame takes *charge*
        more bytes of its credit.
        """
        while self.ownership.ready:
            stream = self._scheduler.next()
            if stream is None:
                return False
            left = burst
            while True:
                left -= self._send_next(stream, out, ended=ended) + charge
                stream.credit -= charge
                if left <= 0 or stream.credit <= 0 or not self.ownership.ready:
                    break
        return True

    def _send_next(self, stream: ReadStream, out: list[Effect], *, ended: bool) -> int:
        """Send a reader the first frame that is ready, or its share; return the frame's bytes."""
        frame = self._frames.at(self.ownership.ready.spans[0][0])
        part = self._scheduler.share(frame, ended=ended)
        floor = self.ownership.acked.floor
        self.ownership.assign(stream.reader, part)
        self._sender.send(stream, frame.frame, part, floor, out)
        return frame.frame.nbytes

    def tell_all_sent(self, out: list[Effect]) -> None:
        """Tell each reader, once for each stream, that it gets no more elements."""
        for stream in self._scheduler.streams.values():
            if not stream.all_sent:
                stream.all_sent = True
                told = AllSent(self._sender.task, self._sender.attempt, stream.subscription)
                out.append(SendAllSent(stream.id, told))

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        return self._scheduler.wants_flush()

    def any_has_operators(self) -> bool:
        """Return whether some stream needs more elements than it may ever requeue."""
        return self._scheduler.any_has_operators()

    def in_operators(self) -> RangeSet:
        """Return unacked elements of readers whose operators need more than they may requeue."""
        streams, unacked = self._scheduler.streams.values(), self.ownership.unacked
        spans = (unacked[s.reader].spans for s in streams if s.has_operators)
        return RangeSet.of(*chain.from_iterable(spans))

    def all_waiting(self) -> bool:
        """Return whether the loops of all readers with unacked elements wait themselves."""
        return self._scheduler.all_waiting()

    def recall(self, out: list[Effect], *, ended: bool) -> None:
        """Ask readers to requeue elements that other readers wait for."""
        sender = self._sender
        for stream, flush in self._scheduler.recalls(ended=ended):
            sender.worker_counters.recalls += 1
            out.append(SendRecall(stream.id, Recall(sender.task, sender.attempt, flush)))

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        for stream in self._scheduler.streams.values():
            self._sender.end(stream.id, out, failure)
        self._scheduler.streams.clear()

    def _refuse_stray(
        self, name: StreamId, reader: ReaderId, stray: RangeSet, out: list[Effect]
    ) -> None:
        text = (
            f"law 5: reader {reader} buffers {stray.spans} of task {self._sender.task}, attempt "
            f"{self._sender.attempt}, which is not reserved for it; this is a bug"
        )
        out.append(LogError(text, self._sender.task, self._sender.attempt))
        self._sender.end(name, out, Failure("PenstockError", (text,)))


def refuse(sender: Sender, name: StreamId, why: str, out: list[Effect]) -> None:
    """End a stream because of *why*, a sentence about the task."""
    sender.end(name, out, Failure.of(Refused(f"task {sender.task} {why}")))

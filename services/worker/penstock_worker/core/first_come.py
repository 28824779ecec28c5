"""Each element goes to the first reader that has room for it.

A frame is kept until all its numbers are acked; then its memory in the arena is freed, once. When a
reader leaves or expires, its unacked elements go to other readers.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.delivery_policy import DeliveryCounts, Parting, Sender, free
from penstock_worker.core.events import Effect, StreamId
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.sharing_readers import SharingReaders, refuse
from penstock_worker.core.streams import ReadStream
from penstock_worker.runner.messages import FrameReady


class FirstCome:
    """See `DeliveryPolicy`, and `Ownership` for which reader has which number."""

    def __init__(self, assignment: TaskAssignment, sender: Sender) -> None:
        self.ownership = Ownership(
            max(assignment.checkpoint.number, assignment.acked.floor),
            assignment.acked,
            assignment.unacked,
        )
        self.frames = FrameBuffer()
        self.total: int | None = None
        self._sender = sender
        self._sharing = SharingReaders(
            self.ownership, self.frames, sender, ordered=assignment.ordered
        )

    @property
    def head(self) -> int:
        """The number of the next element to be produced."""
        return self.ownership.head

    @property
    def acked(self) -> AckedSet:
        """The elements that readers acked."""
        return self.ownership.acked

    @property
    def nbytes(self) -> int:
        """The bytes of the frames that are kept."""
        return self.frames.nbytes

    @property
    def done(self) -> bool:
        """Whether all elements are acked."""
        return self.total is not None and self.ownership.acked.floor >= self.total

    @property
    def all_sent(self) -> bool:
        """Whether readers have all elements; false if one must be produced again."""
        return self.total is not None and not (self.ownership.ready or self.lost)

    @property
    def lost(self) -> bool:
        """Whether a requeued element is no longer here."""
        return bool(self.ownership.missing)

    @property
    def in_doubt(self) -> int:
        """How many elements were requeued because their reader expired."""
        return self.ownership.in_doubt

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        return self._sharing.readers

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return nothing: readers do not belong to trainers."""
        return {}

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        return self._sharing.counts()

    def count_existing(self, number: int, *, produced: bool) -> int:
        """See `Ownership.count_existing`."""
        return self.ownership.count_existing(number, produced=produced)

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*; return False if none is needed."""
        if not self.ownership.produce(start, stop):
            return False
        self.frames.put(BufferedFrame(start, stop, frame))
        return True

    def on_ended(self, number: int, _out: list[Effect]) -> None:
        """Record that there are *number* elements, or more if another runner produced more."""
        self.total = max(number, self.ownership.head)

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        return self.frames.of(run)

    def shed(self) -> list[FrameReady]:
        """Remove and return the oldest frames, if readers' operators want more.

        The readers have the elements of these frames, and will hardly requeue them.
        """
        if not self._sharing.any_has_operators():
            return []
        shed = self.frames.shed()
        self.ownership.drop(RangeSet.of(*((frame.start, frame.stop) for frame in shed)))
        return [frame.frame for frame in shed]

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        return self.frames.clear()

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Reconcile the reader's unacked elements, and add its stream; return None if refused."""
        if request.trainer:
            why = f"is not cached: a reader of it has no trainer {request.trainer!r}"
            refuse(self._sender, name, why, out)
            return None
        if not self._sharing.may_open(name, request, out):
            return None
        self.ack(request.acked.ranges, out)
        return self._sharing.open(name, request, out)

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack elements that were sent, and add the stream's new credit."""
        stream.on_ack(ack)
        self.ack(ack.acked, out)

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        stream.writable = True

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        self._sharing.close(stream)

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """Requeue the unacked elements of *reader*."""
        self._sharing.remove_reader(reader, status, out)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked."""
        self.ack(assignment.acked.ranges, out)

    def ack(self, numbers: RangeSet, out: list[Effect]) -> None:
        """Mark *numbers* acked; irrevocable and idempotent."""
        if new := self._sharing.ack(numbers):
            free(self.frames.release(new, self.ownership.acked), out)

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        self._sharing.on_tick()

    def send_ready(self, out: list[Effect]) -> bool:
        """Send frames; return whether nothing is left to send."""
        nothing_left = self._sharing.send_ready(out, ended=self.total is not None)
        if self.all_sent and not self.done:  # its last acks need not wait for more to come
            self._sharing.tell_all_sent(out)
        return nothing_left

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        return self._sharing.wants_flush()

    def recall(self, out: list[Effect]) -> None:
        """Ask readers to requeue elements that other readers wait for."""
        self._sharing.recall(out, ended=self.total is not None)

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream: nothing is ready."""
        self.end_streams(failure, out)

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        self._sharing.end_streams(failure, out)

    def parting(self, *, failed: bool) -> Parting:
        """Return when to hand over: not before readers have all ready elements."""
        has_holders = bool(self.ownership.holders)
        if not self._sharing.streams and (failed or not has_holders):
            return Parting.NOW  # it has no readers
        if self.ownership.ready or failed:
            return Parting.LATER
        if has_holders:
            waits = self.total is None and self._sharing.all_waiting()
            return Parting.NOW if waits else Parting.LATER
        return Parting.AT_CHECKPOINT

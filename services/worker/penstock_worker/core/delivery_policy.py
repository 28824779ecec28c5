"""How an attempt distributes its elements: what all policies do alike.

An attempt manages the runner, and its policy manages the readers. Each policy has one or several
groups of readers that share elements (`SharingReaders`), over one buffer of frames. `FirstCome` has
one group. `Strided` has a group for each consumer, and gives each element to the consumer that it
belongs to. `SharedCache` has a group for each trainer, and gives each element to all of them.
`RoundGroups` has none: its consumers keep their elements even if their readers change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.events import Effect, StreamId
from penstock_worker.core.frame_buffer import FrameBuffer
from penstock_worker.core.sharing_readers import ReadStream, Sender, SharingReaders
from penstock_worker.runner.messages import FrameReady

G = TypeVar("G", bound=SharingReaders)
"""A group of readers that share elements."""


class Parting(Enum):
    """When the attempt of a draining worker may end, as far as readers are concerned."""

    NOW = "now"
    AT_CHECKPOINT = "at checkpoint"
    """As soon as the runner has paused: its newest checkpoint is here then."""
    LATER = "later"


class DeliveryCounts(NamedTuple):
    """How many elements are ready or unacked, and how many streams there are; for status."""

    ready: int
    unacked: int
    streams: int


class DeliveryPolicy(Generic[G]):
    """Keeps an attempt's frames while a reader may need them, and chooses each element's reader.

    The methods here are those of a policy that gives each element to one reader, and keeps its
    frame until it is acked.
    """

    def __init__(self, head: int, sender: Sender) -> None:
        self.head = head
        """The number of the next element to be produced."""
        self.total: int | None = None
        """How many elements there are, once all are produced."""
        self.frames = FrameBuffer()
        self._sender = sender

    @property
    def groups(self) -> Iterable[G]:
        """The groups of readers that share elements."""
        return ()

    @property
    def acked(self) -> AckedSet:
        """The elements that every intended reader has acked."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """The bytes of the frames that are kept."""
        return self.frames.nbytes

    @property
    def done(self) -> bool:
        """Whether no reader needs an element any more."""
        return self.total is not None and self.acked.floor >= self.total

    @property
    def all_sent(self) -> bool:
        """Whether readers have all elements of an ordered task, and none must be made again."""
        return all(map(self._has_all, self.groups))

    @property
    def lost(self) -> bool:
        """Whether a reader needs an element that the worker no longer has."""
        for one in self.groups:  # noqa: SIM110  # on the way of each event: no generator
            if one.ownership.missing:
                return True
        return False

    @property
    def in_doubt(self) -> int:
        """How many elements were requeued because their reader expired."""
        return sum(one.ownership.in_doubt for one in self.groups)

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        return set(chain.from_iterable(one.readers for one in self.groups))

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return each trainer's progress, if its readers belong to trainers."""
        return {}

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        return sum_counts(map(counts_of, self.groups))

    def count_existing(self, number: int, *, produced: bool) -> int:
        """Count elements from *number* on: all if *produced* here, else those that readers have."""
        return max(0, self.head - number if produced else self._count_had(number))

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*; return False if none is needed."""
        raise NotImplementedError

    def on_ended(self, number: int, out: list[Effect]) -> None:  # noqa: ARG002
        """Record that there are *number* elements, or more if more were produced already."""
        self.total = max(number, self.head)

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        return self.frames.of(run)

    def shed(self) -> list[FrameReady]:
        """Remove and return the oldest frames, if readers' operators want more.

        The readers have the elements of these frames, and will hardly requeue them.
        """
        if not any(one.any_has_operators() for one in self.groups):
            return []
        shed = self.frames.shed(below=self._first_unsent)
        self._drop(RangeSet.of(*((frame.start, frame.stop) for frame in shed)))
        return [frame.frame for frame in shed]

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        return self.frames.clear()

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Reconcile the reader's unacked elements, and add its stream; return None if refused."""
        why = self._why_not(request)
        if why or request.wants is not None:
            groups = f"reader {request.reader} wants groups of coordinated reads"
            self._sender.refuse(name, why or f"is not read in groups, and {groups}", out)
            return None
        one = self._join(request)
        if one.is_superseded(request):
            self._sender.end(name, out)
            return None
        self._ack(request.acked.ranges, self._concerned(one), out)
        return one.open(name, request, out)

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack elements that were sent, and add the stream's new credit."""
        stream.on_ack(ack)
        self._ack(ack.acked, (self._group(stream.reader),), out)

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        stream.writable = True

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        self._group(stream.reader).close(stream)

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """End the stream of *reader*, which is not live, and take back its elements."""
        self._group(reader).remove_reader(reader, status, out)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked, before lost readers are removed."""
        self._ack(assignment.acked.ranges, self.groups, out)

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        for one in self.groups:
            for stream in one.streams.values():
                stream.on_tick()

    def send_ready(self, out: list[Effect]) -> bool:
        """Send frames; return whether streams with credit have every frame that they may get."""
        raise NotImplementedError

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        for one in self.groups:  # noqa: SIM110  # as in `lost`
            if not one.ownership.ready and one.wants_flush():
                return True
        return False

    def recall(self, out: list[Effect]) -> None:
        """Ask readers to requeue elements that other readers of their group wait for."""
        for one in self.groups:
            if one.streams and not self._has_unsent(one):
                one.recall(out, ended=self.total is not None)

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End streams that have all their elements, when the attempt is done or has failed."""
        for one in self.groups:
            if self.done or not self._has_unsent(one):
                one.end_streams(failure, out)

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        for one in self.groups:
            one.end_streams(failure, out)

    def parting(self, *, failed: bool) -> Parting:
        """Return when the attempt may be handed over, if the worker drains.

        Readers get all elements that are ready for them first.
        """
        served = [one for one in self.groups if one.streams]
        has_holders = any(one.ownership.holders for one in self.groups)
        if not served and (failed or not has_holders):
            return Parting.NOW  # it has no readers
        if failed or any(one.ownership.ready for one in served):
            return Parting.LATER
        if has_holders:
            waits = self.total is None and all(one.all_waiting() for one in self.groups)
            return Parting.NOW if waits else Parting.LATER
        return Parting.AT_CHECKPOINT

    # --- what a policy says for itself ---

    def _why_not(self, request: Subscribe) -> str:
        """Return why a reader may not read, as a sentence about the task; "" if it may."""
        if request.trainer:
            return f"is not cached: a reader of it has no trainer {request.trainer!r}"
        return ""

    def _join(self, request: Subscribe) -> G:
        """Return the group of a reader that may read; it stays its group."""
        raise NotImplementedError

    def _group(self, reader: ReaderId) -> G:
        """Return the group of a reader that has joined one."""
        raise NotImplementedError

    def _concerned(self, one: G) -> Iterable[G]:  # noqa: ARG002
        """Return the groups that may have elements which a new reader of *one* knows as acked."""
        return self.groups

    def _ack(self, numbers: RangeSet, groups: Iterable[G], out: list[Effect]) -> None:
        """Mark *numbers*, which belong to *groups*, acked; irrevocable and idempotent."""
        raise NotImplementedError

    def _drop(self, numbers: RangeSet) -> None:
        """Record that only readers still have *numbers*."""
        for one in self.groups:
            one.ownership.drop(numbers)

    def _has_unsent(self, one: G) -> bool:
        """Return whether elements that are here are yet to be sent to a group."""
        return bool(one.ownership.ready)

    def _has_all(self, one: G) -> bool:
        """Return whether a group's readers have all its elements."""
        if self.total is None:
            return False
        return not (one.ownership.missing or self._has_unsent(one))

    @property
    def _first_unsent(self) -> int:
        """The lowest number here that is yet to be sent."""
        ready = (one.ownership.ready.spans for one in self.groups)
        return min((spans[0][0] for spans in ready if spans), default=self.head)

    def _count_had(self, number: int) -> int:
        """Count elements from *number* on that readers have or had."""
        had = (one.ownership.had.spans for one in self.groups)
        return len(RangeSet.of(*chain.from_iterable(had)) - RangeSet.of((0, number)))


def counts_of(one: SharingReaders) -> DeliveryCounts:
    """Return the counts of one group."""
    unacked = sum(map(len, one.ownership.unacked.values()))
    return DeliveryCounts(len(one.ownership.ready), unacked, len(one.streams))


def sum_counts(each: Iterable[DeliveryCounts]) -> DeliveryCounts:
    """Return the sum of counts."""
    return DeliveryCounts(*map(sum, zip((0, 0, 0), *each, strict=True)))


def parting_if_remade(policy: DeliveryPolicy[Any], *, failed: bool) -> Parting:
    """Return when to hand over, if the next attempt remakes elements that a reader lacks."""
    if failed:
        return Parting.LATER if policy.counts().streams else Parting.NOW
    return Parting.AT_CHECKPOINT if policy.total is None else Parting.NOW

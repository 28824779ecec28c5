"""How an attempt distributes its elements: the interface of a policy, and code that all share.

`FirstCome` gives each element to the first reader with room. `RoundGroups` and `Strided` give it
to the consumer that it belongs to. `SharedCache` gives it to each trainer once. An attempt manages
the runner, and its policy manages the readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Ack, FrameHeader, StreamEnd, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_worker.core.counters import AttemptCounters, WorkerCounters
from penstock_worker.core.events import Effect, SendEnd, SendFrame, SendToRunner, StreamId
from penstock_worker.core.streams import ReadStream
from penstock_worker.runner.messages import FrameReady, FreeFrames


class Parting(Enum):
    """When the attempt of a draining worker may end, as far as readers are concerned."""

    NOW = "now"
    AT_CHECKPOINT = "at checkpoint"
    """As soon as the runner has paused: its newest checkpoint is here then."""
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """How many elements are ready or unacked, and how many streams there are; for status."""

    ready: int
    unacked: int
    streams: int


class DeliveryPolicy(Protocol):
    """Keeps an attempt's frames while a reader may need them, and chooses each element's reader."""

    @property
    def head(self) -> int:
        """The number of the next element to be produced."""
        ...

    @property
    def acked(self) -> AckedSet:
        """The elements that every intended reader has acked."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of the frames that are kept."""
        ...

    @property
    def total(self) -> int | None:
        """How many elements there are, once all are produced."""
        ...

    @property
    def done(self) -> bool:
        """Whether no reader needs an element any more."""
        ...

    @property
    def all_sent(self) -> bool:
        """Whether readers have all elements of an ordered task."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a reader needs an element that the worker no longer has."""
        ...

    @property
    def in_doubt(self) -> int:
        """How many elements were requeued because their reader expired."""
        ...

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that have a stream or unacked elements."""
        ...

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return each trainer's progress, if its readers belong to trainers."""
        ...

    def counts(self) -> DeliveryCounts:
        """Return how many elements are ready or unacked, and how many streams there are."""
        ...

    def count_existing(self, number: int, *, produced: bool) -> int:
        """Count elements from *number* on: all if *produced* here, else those that readers have."""
        ...

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*; return False if none is needed."""
        ...

    def on_ended(self, number: int, out: list[Effect]) -> None:
        """Record that there are *number* elements, or more if more were produced already."""
        ...

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        ...

    def shed(self) -> list[FrameReady]:
        """Remove and return frames that readers hardly need, if streams want new elements."""
        ...

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        ...

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Add a stream; return None if it is refused."""
        ...

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack elements that were sent, and add the stream's new credit."""
        ...

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        ...

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        ...

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """End the stream of *reader*, which is not live, and take back its elements."""
        ...

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked, before lost readers are removed."""
        ...

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        ...

    def send_ready(self, out: list[Effect]) -> bool:
        """Send frames; return whether streams with credit have every frame that they may get."""
        ...

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        ...

    def recall(self, out: list[Effect]) -> None:
        """Ask readers to requeue elements that other readers wait for."""
        ...

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End streams that have all their elements, when the attempt is done or has failed."""
        ...

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        ...

    def parting(self, *, failed: bool) -> Parting:
        """Return when the attempt may be handed over, if the worker drains."""
        ...


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

    def count_acked(self, elements: int) -> None:
        """Count elements that are acked now."""
        self.worker_counters.elements_acked += elements

    def count_requeued(self, elements: int) -> None:
        """Count requeued elements."""
        self.counters.requeued += elements
        self.worker_counters.requeued += elements


def free(frames: Iterable[FrameReady], out: list[Effect]) -> None:
    """Tell runners that they may overwrite *frames*."""
    offsets: dict[int, list[int]] = {}
    for frame in frames:
        offsets.setdefault(frame.run, []).append(frame.offset)
    out.extend(SendToRunner(FreeFrames(run, tuple(places))) for run, places in offsets.items())

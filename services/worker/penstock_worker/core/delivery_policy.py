"""Who gets which element of an attempt: what an `Attempt` asks of a policy, and what all share.

`FirstCome` gives each element to the reader that has room first; `RoundGroups` and `Strided` give
it to the consumer that it belongs to; `SharedCache` gives it to each trainer once. An attempt looks
after the runner, its policy after the readers.
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
    """When the attempt of a worker that drains may be over, as far as readers are concerned."""

    NOW = "now"
    AT_CHECKPOINT = "at checkpoint"
    """As soon as the runner has paused: its newest checkpoint is here then."""
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What became of the elements that are here, for status."""

    ready: int
    unacked: int
    streams: int


class DeliveryPolicy(Protocol):
    """Keeps what an attempt has made as long as somebody may need it, and says who gets what."""

    @property
    def head(self) -> int:
        """The number of the next element to be made."""
        ...

    @property
    def acked(self) -> AckedSet:
        """What was acked by all that were to have it."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of the frames that are kept."""
        ...

    @property
    def total(self) -> int | None:
        """How many elements there are, once all are made."""
        ...

    @property
    def done(self) -> bool:
        """Whether nothing of it is needed any more."""
        ...

    @property
    def all_sent(self) -> bool:
        """Whether readers have all there is, of one that is read in order."""
        ...

    @property
    def lost(self) -> bool:
        """Whether somebody needs an element that is not here any more."""
        ...

    @property
    def in_doubt(self) -> int:
        """How much was requeued because its reader expired."""
        ...

    @property
    def readers(self) -> set[ReaderId]:
        """Those that have a stream, or something unacked."""
        ...

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return what each trainer has of it, if its readers are of trainers."""
        ...

    def counts(self) -> DeliveryCounts:
        """Return what became of the elements that are here."""
        ...

    def count_existing(self, number: int, *, produced: bool) -> int:
        """Count what exists from *number* on: all if *produced* here, else what readers have."""
        ...

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*; return False if none is needed."""
        ...

    def on_ended(self, number: int, out: list[Effect]) -> None:
        """Record that no more than *number* elements will be made, or as many as were."""
        ...

    def frames_of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        ...

    def shed(self) -> list[FrameReady]:
        """Remove and return frames that will hardly be needed, if streams want what is not made."""
        ...

    def clear(self) -> list[FrameReady]:
        """Remove and return all frames."""
        ...

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Add a stream; None when it is refused."""
        ...

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack what was handed out, and add the stream's new credit."""
        ...

    def on_writable(self, stream: ReadStream) -> None:
        """Record that a stream could send another frame."""
        ...

    def close(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        ...

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """End the stream of *reader*, which is not live, and take back what it had."""
        ...

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark what the dispatcher knows to be acked, before readers that are gone are removed."""
        ...

    def on_tick(self) -> None:
        """Count a tick for every stream."""
        ...

    def send_ready(self, out: list[Effect]) -> bool:
        """Send what can be sent; return whether streams with credit have all that is here."""
        ...

    def wants_flush(self) -> bool:
        """Return whether some stream shall not wait for a full frame."""
        ...

    def recall(self, out: list[Effect]) -> None:
        """Ask readers to requeue what other readers starve for."""
        ...

    def end_served(self, failure: Failure | None, out: list[Effect]) -> None:
        """End the streams that have all there will be: it is done, or goes no further."""
        ...

    def end_streams(self, failure: Failure | None, out: list[Effect]) -> None:
        """End every stream."""
        ...

    def parting(self, *, failed: bool) -> Parting:
        """Return when it may be handed over, if the worker drains."""
        ...


class Sender:
    """What an attempt sends to readers and gives back to runners, counted."""

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
        """Send *frame*, of which *ranges* are the reader's; *group* says which, and if it fills it.

        All below *floor* are acked.
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
    """Tell runners that the places of *frames* may be written again."""
    offsets: dict[int, list[int]] = {}
    for frame in frames:
        offsets.setdefault(frame.run, []).append(frame.offset)
    out.extend(SendToRunner(FreeFrames(run, tuple(places))) for run, places in offsets.items())

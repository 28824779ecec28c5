"""Which reader gets the next frame: the streams of one attempt, and which of them starves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import ReaderId
from penstock_worker.core.events import StreamId
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership

CHEAP = 64 * 1024
"""Payload bytes that may go to several readers, each for a part, before a pass ends."""

EAGER = 4
"""A reader with fewer unacked frames than this does not wait for a frame to fill."""

WAITS = 4
"""Ticks for which a report counts that a loop waits with all its elements in operators."""

PATIENCE = 8
"""Ticks without an ack after which a loop that reads in order gives its elements to other readers.
They get these late, after later elements, which a loop that makes progress must not cause."""


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
    """Whether it ever did: operators behind its reader have elements without acking them."""
    all_sent: bool = False
    """Whether its reader was told that all is sent."""
    quiet_ticks: int = 0
    """Ticks since its loop consumed something."""

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


class StreamScheduler:
    """The streams that read one attempt, whose frames are in *frames*."""

    def __init__(self, frames: FrameBuffer, ownership: Ownership, *, ordered: bool) -> None:
        self.streams: dict[ReaderId, ReadStream] = {}
        self._frames, self._ownership = frames, ownership
        self._patience = PATIENCE if ordered else 0
        self._subscriptions: dict[ReaderId, int] = {}

    def is_superseded(self, request: Subscribe) -> bool:
        """Return whether its reader opened a newer one."""
        return self._subscriptions.get(request.reader, 0) >= request.subscription

    def open(self, name: StreamId, request: Subscribe) -> tuple[ReadStream, ReadStream | None]:
        """Add a stream; return it, and the one that it replaces."""
        self._subscriptions[request.reader] = request.subscription
        before = self.streams.pop(request.reader, None)
        stream = ReadStream(name, request.reader, request.subscription, request.credit)
        if before is not None:
            stream.has_operators = before.has_operators
        self.streams[request.reader] = stream
        return stream, before

    def remove(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        if self.streams.get(stream.reader) is stream:
            del self.streams[stream.reader]

    def remove_reader(self, reader: ReaderId) -> ReadStream | None:
        """Forget a reader; return its stream, if it has one."""
        self._subscriptions.pop(reader, None)
        return self.streams.pop(reader, None)

    def next(self) -> ReadStream | None:
        """Return the stream for the next frame: one whose loop waits, or the one with least."""
        hungry = (stream for stream in self.streams.values() if stream.wants_frame)
        unacked = self._ownership.unacked
        return min(
            hungry, key=lambda s: (not s.waiting_ticks, len(unacked[s.reader])), default=None
        )

    def share(self, frame: BufferedFrame, *, ended: bool) -> RangeSet:
        """Return the part of *frame* for one reader: a fair share if some starve."""
        ready = self._ownership.ready
        part = ready & frame.span
        waiting = sum(1 for stream in self.streams.values() if self._empty(stream))
        if waiting < 2 or self._frames.count_touched(ready, waiting) >= waiting:
            return part
        if not ended and frame.frame.nbytes > CHEAP:
            return part
        return _lowest(part, -(-len(ready) // waiting))

    def wants_flush(self) -> bool:
        """Return whether a stream must not wait for a full frame."""
        unacked, frames = self._ownership.unacked, self._frames
        return any(
            stream.wants_frame and frames.count_touched(unacked[stream.reader], EAGER) < EAGER
            for stream in self.streams.values()
        )

    def any_has_operators(self) -> bool:
        """Return whether some stream needs more elements than it may ever requeue."""
        return any(stream.has_operators and stream.wants_frame for stream in self.streams.values())

    def all_waiting(self) -> bool:
        """Return whether the loops of all readers with unacked elements wait themselves."""
        return self._ownership.holders <= {
            s.reader for s in self.streams.values() if s.waiting_ticks
        }

    def recalls(self, *, ended: bool) -> Iterator[tuple[ReadStream, bool]]:
        """Yield streams with unacked elements that a starving reader needs, and whether to flush.

        Once all is produced, operators of loops that wait themselves have to make do with what they
        have: these are yielded with True. Recalls between them would go to and fro.
        """
        empty = {s.reader for s in self.streams.values() if self._empty(s)}
        all_waiting = ended and self.all_waiting()
        for stream in self.streams.values():
            if stream.recalled:
                continue
            has_unacked = bool(self._ownership.unacked[stream.reader])
            waits = stream.waiting_ticks > 0 or stream.reader in empty
            flush = waits and (all_waiting or (ended and has_unacked))
            patient = stream.quiet_ticks < self._patience
            if flush or (empty and has_unacked and not waits and not patient):
                stream.recalled = True
                yield stream, flush

    def _empty(self, stream: ReadStream) -> bool:
        return stream.wants_frame and not self._ownership.unacked[stream.reader]


def _lowest(numbers: RangeSet, count: int) -> RangeSet:
    """Return the *count* lowest of *numbers*."""
    spans = []
    for start, stop in numbers.spans:
        if count <= 0:
            break
        spans.append((start, min(stop, start + count)))
        count -= stop - start
    return RangeSet(tuple(spans))

"""Messages between a worker and a reader: one stream for each (reader, task)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from penstock.protocol.malformed import MALFORMED
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import GroupsWanted
from penstock.protocol.types import (
    Codec,
    Failure,
    ReaderId,
    TaskId,
)

# --- reader and worker: one stream a (reader, task) ---


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When a reader had the elements *start* to *stop* of a frame.

    It was *received*; its first element was *wanted* by the loop, which began to decode it, and was
    *decoded*; the last one was *taken*.
    """

    start: int
    stop: int
    received: float
    wanted: float
    decoded: float
    taken: float


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A reader asks for a task's frames and lists the elements that it has.

    The worker may send other elements to other readers. *credit* is how many payload bytes the
    worker may send before the reader gives more. A consumer in coordinated reads says which groups
    it *wants*; all consumers have taken the elements below *acked*'s floor. Each of its elements
    takes `penstock.protocol.rounds.ELEMENT_NBYTES` more of the credit.
    """

    reader: ReaderId
    task: TaskId
    attempt: int
    subscription: int
    acked: AckedSet
    buffered: RangeSet
    credit: int
    wants: GroupsWanted | None = None
    trainer: str = ""
    """Of a reader of a cached job: the trainer that it belongs to."""
    consumer: int | None = None
    """In ordered reads by several consumers: the consumer's index.

    Each of its elements takes `penstock.protocol.rounds.STRIDED_NBYTES` more of the credit."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The elements acked since the last `Ack`, and how many bytes are free again.

    An empty one says that the training loop waits while operators in the reader's process hold all
    elements, unacked. These operators may need more elements, or a flush (`Recall.flush`).
    """

    acked: RangeSet
    credit: int
    traced: tuple[FrameTimes, ...] = ()
    """The times of frames whose headers asked for them."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of *count* consecutive elements, from number *first* on.

    *ranges* are the numbers among them that belong to this reader; all below *floor* are acked.
    *layout* says how the payload is laid out (`penstock.frames.frame`), *codec* how it is
    compressed. The payload follows the header on the wire.

    In coordinated reads, a frame holds one element: this reader's element of *group*. *filler* says
    that it pads a group that the end of the task left short.
    """

    task: TaskId
    attempt: int
    subscription: int
    first: int
    count: int
    floor: int
    ranges: RangeSet
    layout: bytes
    codec: Codec = Codec.NONE
    raw_nbytes: int = 0
    """Length of the payload when decompressed."""
    group: int = 0
    filler: bool = False
    traced: bool = False
    """Whether the reader must report when it received and delivered the frame."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A worker asks a reader to requeue unused elements, because another reader waits.

    A *flush* goes to readers whose loops wait although they hold all remaining elements of the
    task. Their operators must then continue with the elements that they have.
    """

    task: TaskId
    attempt: int
    flush: bool = False


@dataclass(frozen=True, slots=True)
class AllSent:
    """The worker has sent all elements of the task, on this stream or to other readers.

    More elements come only if another reader requeues them.
    """

    task: TaskId
    attempt: int
    subscription: int


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last message of a stream: this attempt sends nothing more on it.

    With a *failure*, the task failed after the elements that were sent.
    """

    task: TaskId
    attempt: int
    failure: Failure | None = None


ReadRequest = Subscribe | Ack
"""A message from a reader to a worker."""

ReadReply = FrameHeader | Recall | AllSent | StreamEnd


# --- what `penstock trace` asks a worker for ---
#
# Times are in seconds since 1970. Each process uses its own clock, so times of several hosts are
# comparable only if their clocks agree.


class FrameSent(msgspec.Struct, frozen=True, tag="sent"):
    """A worker sent a part of a frame: *elements* of it, from number *start* on, in *nbytes*.

    Its runner *began* it, had it *full*, had it *placed* where there was room, and had it *written*
    there; the worker had it from *arrived* on and gave it to the stream at *sent*.
    """

    task: int
    attempt: int
    run: int
    reader: int
    start: int
    elements: int
    nbytes: int
    codec: str
    began: float
    full: float
    placed: float
    written: float
    arrived: float
    sent: float


class FrameTaken(msgspec.Struct, frozen=True, tag="taken"):
    """A reader said when it had what: see `FrameTimes`."""

    task: int
    attempt: int
    reader: int
    times: FrameTimes


TraceEvent = FrameSent | FrameTaken

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[TraceEvent])


def encode_events(events: Iterable[TraceEvent]) -> bytes:
    """Return *events* as bytes."""
    return _ENCODER.encode(list(events))


def decode_events(data: bytes) -> list[TraceEvent]:
    """Return the events that `encode_events` was given.

    Raises:
        ValueError: when *data* is something else.
    """
    try:
        return _DECODER.decode(data)
    except MALFORMED as exc:
        raise ValueError(f"{len(data)} bytes are no trace: {exc}") from exc

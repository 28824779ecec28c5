"""Messages between a worker and a reader: one stream for each (reader, task)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import GroupsWanted
from penstock.protocol.trace import FrameTimes
from penstock.protocol.types import (
    Codec,
    Failure,
    ReaderId,
    TaskId,
)

# --- reader and worker: one stream a (reader, task) ---


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

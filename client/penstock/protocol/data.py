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
    """A reader wants a task's frames, and says what it has: the rest may go to others.

    *credit* is how many payload bytes may be under way before the reader gives more. A consumer of
    coordinated reads says what it *wants*, and that all below *acked*'s floor is taken by all; of
    its credit each element takes `penstock.protocol.rounds.ELEMENT_NBYTES` more.
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
    """Of a reader of a cached job: whose it is."""
    consumer: int | None = None
    """Of a job in one order that goes to several consumers: which it is. Of its credit each element
    takes `penstock.protocol.stride.STRIDED_NBYTES` more."""


@dataclass(frozen=True, slots=True)
class Ack:
    """What was acked since the last one, and how many bytes are free again.

    An empty one says that the loop waits, while all that came is unacked in operators behind it:
    they may need more, or a flush (`Recall.flush`).
    """

    acked: RangeSet
    credit: int
    traced: tuple[FrameTimes, ...] = ()
    """Of frames whose headers asked for it: when they were where."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a run of *count* consecutive elements from number *first* on.

    *ranges* are the numbers of it that are this reader's; all below *floor* are acked.
    *layout* says how the payload is laid out (`penstock.frames.frame`), *codec* how it is
    compressed; the payload itself follows it on the wire.

    Of coordinated reads a frame is one element: this reader's of *group*. *filler* says that it is
    there to fill a group that the end of the task left short.
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
    """Whether the reader is to say when it had what."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A request to requeue what the loop does not ask for: another reader waits.

    A *flush* is for readers whose loops wait: they have all that is left of the task, so their
    operators make do with what is here.
    """

    task: TaskId
    attempt: int
    flush: bool = False


@dataclass(frozen=True, slots=True)
class AllSent:
    """All that the task will ever make was sent on this stream, or has gone to other readers.

    More comes only if one of these requeues it.
    """

    task: TaskId
    attempt: int
    subscription: int


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last message of a stream: nothing more will come of this attempt here.

    With a *failure* the task failed behind the elements sent before.
    """

    task: TaskId
    attempt: int
    failure: Failure | None = None


ReadRequest = Subscribe | Ack
ReadReply = FrameHeader | Recall | AllSent | StreamEnd

"""One task, as one reader reads it: its buffered elements, its unsent acks, its failure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

from penstock.element import Element
from penstock.errors import PenstockError
from penstock.protocol.control import TaskReport
from penstock.protocol.data import FrameHeader
from penstock.protocol.nearness import UNKNOWN_WORKER, WorkerProfile
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.types import Failure, TaskId, WorkerId


def next_ready(streams: Iterable[TaskStream]) -> TaskStream | None:
    """Return the stream of the lowest rank that has elements; among equals, the earliest."""
    found, rank, first = None, inf, inf
    for stream in streams:  # on the way of each block, several times
        if not stream.slices or stream.rank > rank:
            continue
        if stream.rank < rank or stream.slices[0].arrival < first:
            found, rank, first = stream, stream.rank, stream.slices[0].arrival
    return found


def raise_new(streams: Iterable[TaskStream], now: float) -> None:
    """Raise a task's failure after the last of its elements, once for each task."""
    for stream in streams:
        if not stream.failure_raised and not stream.slices and stream.in_trouble(now):
            stream.failure_raised = True
            raise stream.error()


def only_flush(
    streams: Iterable[TaskStream],
    asked: Collection[TaskId],
    misses: Callable[[TaskStream], bool],
) -> bool:
    """Return whether every task that the loop may wait for was *asked* to flush."""
    listed = (stream for stream in streams if stream.listed and not stream.failure_raised)
    return all(stream.task in asked or stream.barred or misses(stream) for stream in listed)


def clear(streams: Iterable[TaskStream]) -> None:
    """Drop the slices of all streams."""
    for stream in streams:
        stream.clear()


def is_over(streams: Iterable[TaskStream], now: float, *, finished: bool) -> bool:
    """Return whether nothing more will come; if a task failed, raise its failure again."""
    streams = list(streams)
    told = [stream for stream in streams if stream.failure_raised]
    stuck = told and all(stream.failure_raised for stream in streams if stream.listed)
    if not finished and not stuck:
        return False
    for stream in told:
        if stream.in_trouble(now):
            raise stream.error()
    return True


@dataclass(frozen=True, slots=True)
class Held:
    """Buffered bytes, and the *room* for them in bytes; *room* is 0 if frames are counted."""

    nbytes: int = 0
    room: int = 0


NOTHING_HELD = Held()


def held_by_worker(streams: Iterable[TaskStream]) -> dict[WorkerId, Held]:
    """Return, for each worker, the undelivered bytes of the tasks that it runs."""
    found: dict[WorkerId, Held] = {}
    for stream in streams:
        if stream.worker is not None:
            before = found.get(stream.worker, NOTHING_HELD)
            held = Held(before.nbytes + stream.nbytes, before.room + stream.window)
            found[stream.worker] = held
    return found


LONG_AGO = float("-inf")

FAILURE_PATIENCE = 1.0
"""Seconds that a stream may be silent before a failure known from the dispatcher counts."""

BACKOFF, MAX_BACKOFF = 0.05, 1.0
"""Seconds before a broken stream is opened again: doubled each time, up to the second figure."""


class FrameElements(Protocol):
    """The elements that a session decodes from a payload."""

    def elements(self, start: int, stop: int, /) -> list[Element]:
        """Return the elements with the numbers from *start* to *stop*."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameSlice:
    """The elements *start* to *stop* of a frame, which are received and not delivered.

    *load* decodes the payload's elements; *arrival* counts the frames of all tasks.
    """

    frame: FrameHeader
    load: FrameElements
    nbytes: int
    arrival: int
    start: int
    stop: int

    def split(self, at: int) -> tuple[FrameSlice, FrameSlice]:
        """Return the elements before number *at*, and the rest, which carries all the bytes."""
        return replace(self, nbytes=0, stop=at), replace(self, start=at)


@dataclass(slots=True, eq=False)
class TaskStream:
    """One task, as this reader knows it.

    Credit: *balance* is the credit given in this subscription minus the credit that arrived frames
    used. If frames are counted in bytes, balance and buffered bytes together fill the *window*.
    """

    task: TaskId
    fence: int = 0
    acked: AckedSet = NOTHING_ACKED
    buffered: RangeSet = NO_RANGES
    slices: list[FrameSlice] = field(default_factory=list)

    listed: bool = True
    """Whether the last view had the task: a task that is done is not listed."""
    attempt: int = 0
    worker: WorkerId | None = None
    incarnation: int = 0
    """Of the worker."""
    profile: WorkerProfile = UNKNOWN_WORKER
    """The worker's profile, as the worker reports it."""
    rank: int = 0
    """The reader prefers the elements of the stream with the lowest rank."""
    awaited: bool = False
    """Whether the loop waits for this task, even if other tasks have elements."""
    barred: bool = False
    """Whether the worker that runs it is one that this reader may not read."""
    subscription: int = 0
    streaming: bool = False
    """Whether the last subscription's stream was opened, and is not known to be gone."""
    answered: bool = False
    """Whether the worker was heard on it."""
    ended: bool = False
    """Whether the worker said that nothing more comes of this attempt."""
    all_sent: bool = False
    """Whether the worker said that it sent everything: more comes only if others requeue it."""
    retry_at: float = LONG_AGO
    breaks: int = 0
    """Streams that broke one after another, with nothing received in between."""
    heard_at: float = LONG_AGO

    window: int = 0
    balance: int = 0
    nbytes: int = 0
    credit_at: float = LONG_AGO
    unsent_acks: RangeSet = NO_RANGES
    """The acks that are not yet sent."""
    hinted_at: float = LONG_AGO
    """When a worker was last told that the loop waits while operators hold its elements."""
    acked_at: float = LONG_AGO
    acks: int = 0
    """How many acks were sent on this subscription."""
    recalled: bool = False

    failure: Failure | None = None
    failure_raised: bool = False
    """Whether the failure was raised in the training loop."""

    @property
    def readable(self) -> bool:
        """Whether there is a worker, and it may have more."""
        return self.worker is not None and not self.ended

    @property
    def exhausted(self) -> bool:
        """Whether nothing is to be waited for here, behind the slices that are here."""
        return self.all_sent or self.barred or self.failure_raised or not self.listed

    @property
    def flows(self) -> bool:
        """Whether its stream stands, and its worker was heard on it."""
        return self.streaming and self.answered

    @property
    def between_attempts(self) -> bool:
        """Whether its attempt is over, and the next has not begun."""
        return self.listed and self.worker is None and self.fence > self.attempt

    def report(self) -> TaskReport:
        """Return what heartbeats report of this task."""
        return TaskReport(self.fence, self.acked, self.buffered)

    def in_trouble(self, now: float) -> bool:
        """Return whether the loop must be told of something behind the elements that are here.

        A failure that the dispatcher tells of may be faster than the elements before it: it
        counts when the stream has ended, or is silent.
        """
        return self.failure is not None and (self.failure_raised or self._silent(now))

    def error(self) -> PenstockError:
        """Return what the loop must be told; raised at once, for a name keeps its frames alive."""
        failure = self.failure or Failure("PenstockError", (f"task {self.task} failed",))
        return failure.error()

    def _silent(self, now: float) -> bool:
        if not self.streaming:
            return True
        return not self.unsent_acks and now >= max(self.heard_at, self.acked_at) + FAILURE_PATIENCE

    @property
    def lowest(self) -> float:
        """The lowest number that is buffered."""
        spans = self.buffered.spans
        return spans[0][0] if spans else float("inf")

    def on_assigned(
        self,
        attempt: int,
        worker: WorkerId,
        incarnation: int = 0,
        profile: WorkerProfile = UNKNOWN_WORKER,
    ) -> None:
        """Record which worker runs the task."""
        self.attempt, self.worker, self.ended = attempt, worker, False
        self.all_sent = False
        self.incarnation, self.profile, self.barred = incarnation, profile, False
        self.fence = max(self.fence, attempt)
        self.retry_at, self.breaks = LONG_AGO, 0

    def on_barred(self, attempt: int) -> None:
        """Record that a worker runs it that this reader may not read."""
        self.attempt, self.fence, self.barred = attempt, max(self.fence, attempt), True

    def expects(self, frame: FrameHeader) -> bool:
        """Return whether *frame* is of the current attempt and subscription."""
        mine = self.streaming and frame.subscription == self.subscription
        return mine and frame.attempt == self.attempt

    def receive(self, frame: FrameHeader, load: FrameElements, nbytes: int, arrival: int) -> None:
        """Keep what is new in *frame*. Its bytes are free again with its last number."""
        below = RangeSet(((0, self.acked.floor),)) if self.acked.floor else NO_RANGES
        left = frame.ranges - below - self.acked.more - self.buffered
        for start, stop in left.spans:
            freed = nbytes if stop == left.spans[-1][1] else 0
            piece = FrameSlice(frame, load, freed, arrival, start, stop)
            insort(self.slices, piece, key=lambda other: other.start)
            self.nbytes += freed
        self.buffered = self.buffered | left

    def next(self, limit: int | None) -> FrameSlice:
        """Return the next elements that are here, at most *limit*."""
        piece = self.slices[0]
        if limit is not None and limit < piece.stop - piece.start:
            self.slices[:1] = piece.split(piece.start + limit)
        return self.slices[0]

    def deliver(self, piece: FrameSlice) -> None:
        """Mark *piece* delivered: its elements stay buffered until they are acked."""
        self.slices.remove(piece)
        self.nbytes -= piece.nbytes

    def ack(self, numbers: RangeSet) -> None:
        """Ack *numbers*, which local operators had unacked."""
        self.acked = self.acked.union(numbers)
        self.unsent_acks = self.unsent_acks | numbers
        self.buffered = self.buffered - numbers

    def requeue(self, numbers: RangeSet) -> None:
        """Requeue *numbers*, which local operators had unacked."""
        self.buffered = self.buffered - numbers

    def drop_below(self, floor: int) -> None:
        """Drop what lies below *floor*: it is acked."""
        while self.slices and self.slices[0].start < floor:
            piece = self.slices[0]
            stop = min(floor, piece.stop)
            self.buffered = self.buffered - RangeSet(((piece.start, stop),))
            if stop < piece.stop:
                self.slices[0] = piece.split(stop)[1]
            else:
                self.deliver(piece)

    def clear(self) -> None:
        """Drop the slices of all streams."""
        here = RangeSet.of(*((piece.start, piece.stop) for piece in self.slices))
        self.buffered = self.buffered - here
        self.slices, self.nbytes = [], 0

    def on_opened(self, credit: int, now: float) -> None:
        """Begin a subscription with *credit*; its request acks everything by itself."""
        self.subscription += 1
        self.streaming, self.recalled, self.acks = True, False, 0
        self.answered = self.all_sent = False
        self.balance, self.hinted_at = credit, LONG_AGO
        self.unsent_acks, self.acked_at = NO_RANGES, now
        self.heard_at = now
        if credit:
            self.credit_at = now

    def end(self, failure: Failure | None, now: float) -> None:
        """Note that the worker has no more of this attempt."""
        self.streaming, self.ended, self.heard_at = False, True, now
        self.failure = failure or self.failure

    def on_broken(self, now: float) -> None:
        """Note that the stream broke, and when to open it anew."""
        self.streaming = self.answered = False
        self.retry_at = now + min(BACKOFF * 2**self.breaks, MAX_BACKOFF)
        self.breaks += 1

    def give(self, credit: int, now: float) -> RangeSet:
        """Give *credit*, and return the acks to send with it."""
        unsaid, self.unsent_acks = self.unsent_acks, NO_RANGES
        self.balance += credit
        self.acked_at = now
        self.acks += 1
        if credit:
            self.credit_at = now
        return unsaid

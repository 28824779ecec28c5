"""What a reader has of one task: pieces of frames that wait for the training loop, and credit."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from penstock.errors import PenstockError, WorkerLost
from penstock.messages import Failure, Frame, Holding
from penstock.numbers import NO_RUNS, NOTHING, Runs, Taken, TaskId, WorkerId

LONG_AGO = float("-inf")

FAILURE_PATIENCE = 1.0
"""Seconds that a stream may be silent before a failure known from the dispatcher counts."""

BACKOFF, MAX_BACKOFF = 0.05, 1.0
"""Seconds before a broken stream is opened anew: doubled each time, up to the second."""


@dataclass(slots=True, eq=False)
class Piece:
    """The elements *start* to *stop* of a frame: they are here and not taken.

    *load* is whatever the body made of the payload; *arrival* counts the frames of all tasks.
    """

    frame: Frame
    load: object
    nbytes: int
    arrival: int
    start: int
    stop: int


@dataclass(slots=True, eq=False)
class Share:
    """One task, as this reader knows it.

    Credit: *balance* is what was given in this opening minus what arrived in it. Where frames
    are counted in bytes, balance and buffered bytes together fill the *window*.
    """

    task: TaskId
    fence: int = 0
    taken: Taken = NOTHING
    buffered: Runs = NO_RUNS
    pieces: list[Piece] = field(default_factory=list)
    last: int = -1
    """The highest number that arrived."""

    listed: bool = True
    """Whether the last view had the task: a task that is done is not listed."""
    attempt: int = 0
    worker: WorkerId | None = None
    opening: int = 0
    streaming: bool = False
    """Whether the stream of the last opening stands."""
    ended: bool = False
    """Whether the worker said that nothing more comes of this attempt."""
    retry_at: float = LONG_AGO
    breaks: int = 0
    """Streams that broke one after another, with nothing received in between."""
    trouble: str = ""
    """Why the last one broke."""
    heard_at: float = LONG_AGO

    window: int = 0
    balance: int = 0
    nbytes: int = 0
    given_at: float = LONG_AGO
    unsaid: Runs = NO_RUNS
    """What was taken and is not acknowledged."""
    said_at: float = LONG_AGO
    acks: int = 0
    """How often that was done on this stream."""
    recalled: bool = False

    lost: WorkerId | None = None
    failure: Failure | None = None
    told: bool = False
    """Whether the training loop heard of the loss or the failure."""

    @property
    def readable(self) -> bool:
        """Whether there is a worker, and it may have more."""
        return self.worker is not None and not self.ended

    def holding(self) -> Holding:
        """Return the reader's word on this task."""
        return Holding(self.fence, self.taken, self.buffered)

    def in_trouble(self, now: float) -> bool:
        """Say whether the loop must be told of something behind the elements that are here.

        A failure that the dispatcher tells of may be faster than the elements before it: it
        counts when the stream has ended, or is silent.
        """
        if self.failure is not None and (self.told or self._silent(now)):
            return True
        return self.lost is not None

    def error(self) -> PenstockError:
        """Return what the loop must be told; raised at once, for a name keeps its frames alive."""
        if self.failure is not None:
            return self.failure.error()
        return WorkerLost(self.lost or WorkerId("?"), self.task, self.last)

    def _silent(self, now: float) -> bool:
        if not self.streaming:
            return True
        return not self.unsaid and now >= max(self.heard_at, self.said_at) + FAILURE_PATIENCE

    def receive(self, frame: Frame, load: object, nbytes: int, arrival: int) -> None:
        """Keep what is new in *frame*. Its bytes are free again with its last number."""
        left = frame.part - self.taken.runs - self.buffered
        for start, stop in left.spans:
            held = nbytes if stop == left.spans[-1][1] else 0
            piece = Piece(frame, load, held, arrival, start, stop)
            insort(self.pieces, piece, key=lambda other: other.start)
            self.last = max(self.last, stop - 1)
            self.nbytes += held
        self.buffered = self.buffered | left

    def take(self, piece: Piece, stop: int) -> None:
        """Know that the training loop has *piece* up to number *stop*."""
        numbers = Runs(((piece.start, stop),))
        self.taken = self.taken.plus(numbers)
        self.unsaid = self.unsaid | numbers
        self._advance(piece, stop)

    def drop_below(self, floor: int) -> None:
        """Drop what lies below *floor*: somebody else took it."""
        while self.pieces and self.pieces[0].start < floor:
            self._advance(self.pieces[0], min(floor, self.pieces[0].stop))

    def _advance(self, piece: Piece, stop: int) -> None:
        self.buffered = self.buffered - Runs(((piece.start, stop),))
        piece.start = stop
        if stop == piece.stop:
            self.pieces.remove(piece)
            self.nbytes -= piece.nbytes

    def clear(self) -> None:
        """Drop everything that is buffered."""
        self.pieces, self.buffered, self.nbytes = [], NO_RUNS, 0

    def opened(self, credit: int, now: float) -> None:
        """Know that a new stream is being opened; it acknowledges everything by itself."""
        self.opening += 1
        self.streaming, self.recalled, self.acks = True, False, 0
        self.balance = credit
        self.unsaid, self.said_at = NO_RUNS, now
        self.heard_at = now
        if credit:
            self.given_at = now

    def broken(self, why: str, now: float) -> None:
        """Know that the stream is gone."""
        self.streaming = False
        self.retry_at = now + min(BACKOFF * 2**self.breaks, MAX_BACKOFF)
        self.breaks += 1
        self.trouble = why

    def give(self, credit: int, now: float) -> Runs:
        """Give *credit*, and return what is to be acknowledged with it."""
        unsaid, self.unsaid = self.unsaid, NO_RUNS
        self.balance += credit
        self.said_at = now
        self.acks += 1
        if credit:
            self.given_at = now
        return unsaid

"""The frames that an attempt keeps until all their numbers are acked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import inf

from penstock.protocol.ranges import AckedSet, RangeSet
from penstock_worker.runner.messages import FrameReady

SHED = 8
"""One in so many of the bytes that are here goes at a time, where all are with readers."""


@dataclass(frozen=True, slots=True)
class BufferedFrame:
    """A frame, kept for its numbers from *start* to *stop*."""

    start: int
    stop: int
    frame: FrameReady

    @property
    def span(self) -> RangeSet:
        """The numbers it is kept for; some of them may be acked."""
        return RangeSet(((self.start, self.stop),))


class FrameBuffer:
    """Frames in the order of their numbers, which never overlap."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._starts: list[int] = []
        self._frames: list[BufferedFrame] = []

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def oldest(self) -> BufferedFrame | None:
        """The frame with the lowest numbers."""
        return self._frames[0] if self._frames else None

    def put(self, frame: BufferedFrame) -> None:
        """Add *frame*, whose numbers lie behind all that are here."""
        self._starts.append(frame.start)
        self._frames.append(frame)
        self.nbytes += frame.frame.nbytes

    def at(self, number: int) -> BufferedFrame:
        """Return the frame of *number*."""
        return self._frames[bisect_right(self._starts, number) - 1]

    def count_touched(self, numbers: RangeSet, most: int) -> int:
        """Count the frames with any of *numbers*, up to *most*; all of them must be here."""
        count, last = 0, -1
        for start, stop in numbers.spans:
            low = max(bisect_right(self._starts, start) - 1, last + 1)
            last = max(bisect_right(self._starts, stop - 1) - 1, last)
            count += last + 1 - low
            if count >= most:
                return most
        return count

    def of(self, run: int) -> tuple[FrameReady, ...]:
        """Return the frames here that *run* produced."""
        return tuple(frame.frame for frame in self._frames if frame.frame.run == run)

    def clear(self) -> list[FrameReady]:
        """Remove and return everything."""
        frames, self._frames, self._starts, self.nbytes = self._frames, [], [], 0
        return [frame.frame for frame in frames]

    def evict(self) -> BufferedFrame:
        """Remove and return the oldest frame."""
        frame = self._frames[0]
        del self._frames[0], self._starts[0]
        self.nbytes -= frame.frame.nbytes
        return frame

    def shed(self, below: float = inf) -> list[BufferedFrame]:
        """Remove and return the oldest frames, *below* a number, about an eighth of all here."""
        enough, at, most = self.nbytes // SHED, 0, bisect_left(self._starts, below)
        while at < most and (not at or enough > 0):
            enough -= self._frames[at].frame.nbytes
            at += 1
        shed, self._frames, self._starts = self._frames[:at], self._frames[at:], self._starts[at:]
        self.nbytes -= sum(frame.frame.nbytes for frame in shed)
        return shed

    def release(self, new: RangeSet, acked: AckedSet) -> list[FrameReady]:
        """Remove and return the frames that are wholly acked since *new*; *acked* includes it."""
        over: list[int] = []
        seen = 0  # a shuffle behind a reader acks many small ranges of one frame
        for start, stop in new.spans:
            at = max(bisect_right(self._starts, start) - 1, seen)
            while at < len(self._frames) and self._starts[at] < stop:
                if _all_in(self._frames[at], acked):
                    over.append(at)
                at += 1
            seen = max(seen, at)
        freed = [self._frames[at].frame for at in over]
        for at in reversed(over):
            del self._starts[at], self._frames[at]
        self.nbytes -= sum(frame.nbytes for frame in freed)
        return freed


def _all_in(frame: BufferedFrame, acked: AckedSet) -> bool:
    if frame.stop <= acked.floor:
        return True
    return not RangeSet(((max(frame.start, acked.floor), frame.stop),)) - acked.more

"""What tasks are counted with: runs of element numbers, what is taken, splits and their log.

Element *k* of a task is the same whoever makes it, so dispatcher, worker and reader can say all
they know about elements in a few runs of numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NewType, TypeVar

S = TypeVar("S", bound=Any)
"""A sequence."""

WorkerId = NewType("WorkerId", str)
"""The address that a worker can be read at: a worker *is* its address."""

TaskId = NewType("TaskId", int)
ReaderId = NewType("ReaderId", int)
IterationId = NewType("IterationId", int)
DatasetId = NewType("DatasetId", str)


@dataclass(frozen=True, slots=True)
class Runs:
    """A set of numbers as sorted, disjoint, non-touching half-open runs."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *spans: tuple[int, int]) -> Runs:
        """Join half-open *spans*, in any order, overlapping or empty, into one set."""
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(spans):
            if start >= stop:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((start, stop))
        return cls(tuple(joined))

    def check(self) -> None:
        """Refuse spans from elsewhere that are no runs.

        Raises:
            ValueError: when they are not sorted, empty, or touch.
        """
        at = -1
        for start, stop in self.spans:
            if not at < start < stop:
                raise ValueError(f"{start} to {stop} behind {at} are no runs of numbers")
            at = stop

    def __or__(self, other: Runs) -> Runs:
        if not other.spans or self.spans == other.spans:
            return self
        return Runs.of(*self.spans, *other.spans) if self.spans else other

    def __sub__(self, other: Runs) -> Runs:
        if not other.spans or not self.spans:
            return self
        left = []
        spans = other.spans  # there may be ten thousand on either side
        for start, stop in self.spans:
            at = start
            first = max(bisect_left(spans, (start,)) - 1, 0)
            for i in range(first, len(spans)):
                low, high = spans[i]
                if high <= at:
                    continue
                if low >= stop:
                    break
                if low > at:
                    left.append((at, low))
                at = max(at, high)
            if at < stop:
                left.append((at, stop))
        return Runs(tuple(left))

    def __and__(self, other: Runs) -> Runs:
        return self - (self - other)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_left(self.spans, (number + 1,)) - 1
        return at >= 0 and number < self.spans[at][1]

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.spans:
            yield from range(start, stop)


NO_RUNS = Runs()


@dataclass(frozen=True, slots=True)
class Taken:
    """Numbers that training loops took: all below *floor*, and *more*. A fact for ever.

    Such sets are only ever joined; it does not matter how often, by whom or in what order.
    """

    floor: int = 0
    more: Runs = NO_RUNS

    def __post_init__(self) -> None:
        floor, spans = self.floor, self.more.spans
        if spans and spans[0][0] <= floor:
            while spans and spans[0][0] <= floor:
                floor, spans = max(floor, spans[0][1]), spans[1:]
            object.__setattr__(self, "floor", floor)
            object.__setattr__(self, "more", Runs(spans))

    def __or__(self, other: Taken) -> Taken:
        return Taken(max(self.floor, other.floor), self.more | other.more)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and (number < self.floor or number in self.more)

    def plus(self, runs: Runs) -> Taken:
        """Return this set with *runs* joined to it."""
        return Taken(self.floor, self.more | runs)

    @property
    def runs(self) -> Runs:
        """The whole set as runs."""
        return Runs.of((0, self.floor)) | self.more


NOTHING = Taken()


class Standing(Enum):
    """A reader as the dispatcher sees it."""

    LIVE = "live"
    LEFT = "left"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Split:
    """A unit of source input: the half-open range ``[start, stop)`` of a stream's units.

    An empty split ends a pass over the stream. *names* are the files, for streams of files.
    """

    start: int
    stop: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"negative split: {self}")

    def __bool__(self) -> bool:
        return self.start < self.stop

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Cut:
    """Which of numbered things are left: from *start* to before *stop*, each *step*-th."""

    start: int = 0
    stop: int | None = None
    step: int = 1

    def of(self, things: S) -> S:
        """Return those of *things*, a sequence, that are left."""
        left: S = things[self.start : self.stop : self.step]
        return left


@dataclass(frozen=True, slots=True)
class SplitLog:
    """The splits that a task drew from one stream, from position *start* on.

    A log grows at its end only; nothing in it is ever changed or taken back.
    """

    start: int = 0
    splits: tuple[Split, ...] = ()

    @property
    def stop(self) -> int:
        """The position behind the last split."""
        return self.start + len(self.splits)

    def after(self, position: int) -> tuple[Split, ...]:
        """Return the splits from *position* on."""
        return self.splits[max(position - self.start, 0) :]

    def plus(self, splits: Iterable[Split]) -> SplitLog:
        """Return this log with *splits* at its end."""
        return SplitLog(self.start, (*self.splits, *splits))

    def forget(self, position: int) -> SplitLog:
        """Return this log without what lies before *position*."""
        return SplitLog(max(position, self.start), self.after(position))


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine just before it makes element *number*.

    *positions* says, stream by stream, from where in the split log a restored engine reads:
    the log before that may be forgotten. *state* is the pipeline's own, as JSON text.
    """

    number: int = 0
    positions: tuple[int, ...] = ()
    state: str = "null"


AT_START = EngineState()

"""Sets of element numbers as half-open ranges, and sets of acked numbers.

Element *k* of a task is the same in every attempt. So dispatcher, worker and reader can describe
elements by a few ranges of numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, slots=True)
class RangeSet:
    """A set of numbers as sorted, disjoint, non-touching half-open runs."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *spans: tuple[int, int]) -> RangeSet:
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
        """Check spans that come from another process.

        Raises:
            ValueError: when they are not sorted, when one is empty, or when two touch.
        """
        at = -1
        for start, stop in self.spans:
            if not at < start < stop:
                raise ValueError(f"{start} to {stop} behind {at} are no ranges of numbers")
            at = stop

    def __or__(self, other: RangeSet) -> RangeSet:
        if not other.spans or self.spans == other.spans:
            return self
        many, few = self.spans, other.spans
        if len(few) > len(many):
            many, few = few, many
        if len(few) > FEW:
            return RangeSet.of(*many, *few)
        for span in few:
            many = _with(many, span)
        return RangeSet(many)

    def __sub__(self, other: RangeSet) -> RangeSet:
        if not other.spans or not self.spans:
            return self
        spans = other.spans  # there may be ten thousand on either side
        if len(spans) <= FEW:
            kept = self.spans
            for span in spans:
                kept = _without(kept, span)
            return RangeSet(kept)
        left = []
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
        return RangeSet(tuple(left))

    def __and__(self, other: RangeSet) -> RangeSet:
        many, few = self.spans, other.spans
        if len(few) > len(many):
            many, few = few, many
        if len(few) > FEW:
            return self - (self - other)
        return RangeSet(tuple(chain.from_iterable(_within(many, span) for span in few)))

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


FEW = 8
"""The most runs that are joined or removed one by one, which leaves untouched runs as they are."""


def _with(spans: tuple[tuple[int, int], ...], span: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return *spans* with *span* added and joined with those that it touches."""
    start, stop = span
    first = bisect_left(spans, (start,))
    if first and spans[first - 1][1] >= start:
        first -= 1
        start = spans[first][0]
    last = bisect_left(spans, (stop + 1,), first)
    if last > first:
        stop = max(stop, spans[last - 1][1])
    return (*spans[:first], (start, stop), *spans[last:])


def _overlapping(spans: tuple[tuple[int, int], ...], span: tuple[int, int]) -> tuple[int, int]:
    """Return the first and last index (half-open) of the *spans* that overlap *span*."""
    first = bisect_left(spans, (span[0],))
    if first and spans[first - 1][1] > span[0]:
        first -= 1
    return first, bisect_left(spans, (span[1],), first)


def _without(
    spans: tuple[tuple[int, int], ...], span: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Return *spans* without the numbers in *span*."""
    start, stop = span
    first, last = _overlapping(spans, span)
    if last == first:
        return spans
    low, high = spans[first][0], spans[last - 1][1]
    left = ((low, start),) if low < start else ()
    right = ((stop, high),) if stop < high else ()
    return (*spans[:first], *left, *right, *spans[last:])


def _within(
    spans: tuple[tuple[int, int], ...], span: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Return the parts of *spans* that lie in *span*."""
    start, stop = span
    first, last = _overlapping(spans, span)
    if last == first:
        return ()
    low, high = spans[first], spans[last - 1]
    if last == first + 1:
        return ((max(low[0], start), min(low[1], stop)),)
    middle = spans[first + 1 : last - 1]
    return ((max(low[0], start), low[1]), *middle, (high[0], min(high[1], stop)))


NO_RANGES = RangeSet()


@dataclass(frozen=True, slots=True)
class AckedSet:
    """Numbers that are acked: all below *floor*, and *more*. Irrevocable.

    These sets are only joined. The number, source and order of joins do not matter.
    """

    floor: int = 0
    more: RangeSet = NO_RANGES

    def __post_init__(self) -> None:
        floor, spans = self.floor, self.more.spans
        if spans and spans[0][0] <= floor:
            below = 0
            while below < len(spans) and spans[below][0] <= floor:
                floor = max(floor, spans[below][1])
                below += 1
            object.__setattr__(self, "floor", floor)
            object.__setattr__(self, "more", RangeSet(spans[below:]))

    def __or__(self, other: AckedSet) -> AckedSet:
        return AckedSet(max(self.floor, other.floor), self.more | other.more)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and (number < self.floor or number in self.more)

    def union(self, runs: RangeSet) -> AckedSet:
        """Return this set with *ranges* joined to it."""
        return AckedSet(self.floor, self.more | runs)

    @property
    def ranges(self) -> RangeSet:
        """The whole set as runs."""
        return RangeSet.of((0, self.floor)) | self.more


NOTHING_ACKED = AckedSet()

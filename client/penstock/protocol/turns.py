"""The turns of a mixture: which source each takes, and how many elements of each come before.

Everything is computed from a turn's number: nobody walks through the turns before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.protocol.mixture import WeightStage

if TYPE_CHECKING:
    from penstock.protocol.turn_pattern import Pattern


@dataclass(frozen=True, slots=True)
class _Segment:
    """Turns from *begin* on, in which the same sources have the same parts."""

    begin: int
    parts: tuple[int, ...]
    before: tuple[int, ...]
    """How many elements of each source come before."""
    seed: int

    def counts(self, turn: int) -> tuple[int, ...]:
        """Return how many elements of each source come before *turn*."""
        rounds, rest = divmod(turn - self.begin, sum(self.parts))
        if not rest:
            return tuple(b + rounds * q for b, q in zip(self.before, self.parts, strict=True))
        own = _pattern(self.parts, self.seed).turns
        return tuple(
            b + rounds * q + bisect_left(turns, rest)
            for b, q, turns in zip(self.before, self.parts, own, strict=True)
        )

    def turn_of(self, source: int, element: int) -> int:
        """Return the turn that takes *element* of *source*, which is in this segment or later."""
        rounds, rest = divmod(element - self.before[source], self.parts[source])
        own = _pattern(self.parts, self.seed).turns[source]
        return self.begin + rounds * sum(self.parts) + own[rest]

    def takes_fewer(self, source: int, element: int, end: int) -> bool:
        """Return whether *element* of *source* is surely not among those before turn *end*."""
        total = sum(self.parts)
        most = self.before[source] + -(-(end - self.begin) * self.parts[source] // total)
        return most <= element

    def sources(self, start: int, stop: int) -> array[int]:
        """Return the sources of turns *start* to *stop*."""
        pattern = _pattern(self.parts, self.seed).sources
        first = (start - self.begin) % len(pattern)
        last = first + stop - start
        rounds = -(-last // len(pattern))
        return (pattern if rounds == 1 else pattern * rounds)[first:last]


class Turns:
    """The turns of a mixture, by number: which source each takes, and how many came before.

    Args:
        stages: the weights. If the first stage begins after turn 0, it says how many elements come
            before, and nothing is known of the turns before it.
        sizes: how many elements each source has; None is without end.
        stop: what happens when a source has no more elements; see `Dataset.mixture`.
        max_epochs: how many passes each source gives with ``stop="repeat"``; None is without end.
        seed: decides between sources that could take a turn equally well.
    """

    def __init__(
        self,
        stages: Sequence[WeightStage],
        sizes: Sequence[int | None],
        stop: str = "repeat",
        max_epochs: Sequence[int | None] | None = None,
        seed: int = 0,
    ) -> None:
        self.stages, self.sizes = tuple(stages), tuple(sizes)
        passes: Sequence[int | None] = max_epochs or (None,) * len(self.sizes)
        if stop == "drop":
            passes = (1,) * len(self.sizes)
        self._limits = [
            None if size is None or most is None else size * most
            for size, most in zip(self.sizes, passes, strict=True)
        ]
        self._seed = seed
        self._first = self.stages[0].before or (0,) * len(self.sizes)
        self._segments: list[_Segment] = []
        self.length: int | None = None
        """How many turns there are; None without end."""
        self.length = self._made()
        self._begins = [each.begin for each in self._segments]
        self._before = list(zip(*(each.before for each in self._segments), strict=True))
        if stop in ("first", "all"):
            self.length = self._end_of_passes(first=stop == "first")

    def counts(self, turn: int) -> tuple[int, ...]:
        """Return how many elements of each source the turns before *turn* take.

        Args:
            turn: at least 0; after the last turn, counts stay as they are.
        """
        if self.length is not None:
            turn = min(turn, self.length)
        if not self._segments:
            return self._first
        return self._segment(turn).counts(turn)

    def sources(self, start: int, stop: int) -> array[int]:
        """Return the numbers of the sources of turns *start* to *stop*, as unsigned shorts."""
        stop = stop if self.length is None else min(stop, self.length)
        out = array("H")
        while start < stop:
            number = bisect_right(self._begins, start)
            end = min([stop, *self._begins[number : number + 1]])
            out += self._segments[number - 1].sources(start, end)
            start = end
        return out

    def turn_of(self, source: int, element: int) -> int | None:
        """Return the turn that takes element number *element* of *source*; None if no turn does.

        Later passes go on counting: with 10 elements, number 10 is the first of the second pass.
        """
        if not self._segments:
            return None
        number = bisect_right(self._before[source], element) - 1
        segment = self._segments[number]
        if not segment.parts[source]:
            return None
        turn = segment.turn_of(source, element)
        return turn if self.length is None or turn < self.length else None

    def next_repeat(self, source: int, turn: int = 0) -> int | None:
        """Return the first turn from *turn* on at which *source* begins a pass again, or None."""
        size = self.sizes[source]
        if not size:
            return None
        taken = self.counts(turn)[source]
        return self.turn_of(source, max(size, -(-taken // size) * size))

    def _segment(self, turn: int) -> _Segment:
        return self._segments[bisect_right(self._begins, turn) - 1]

    def _made(self) -> int | None:
        """Make the segments; return the turn at which none is left that could give an element."""
        turn, counts = self.stages[0].begin, self._first
        ends = [each.begin for each in self.stages[1:]]
        for stage, end in zip(self.stages, [*ends, None], strict=True):
            while end is None or turn < end:
                parts = tuple(
                    0 if limit is not None and count >= limit else part
                    for part, count, limit in zip(stage.parts, counts, self._limits, strict=True)
                )
                if not any(parts):
                    return turn
                segment = _Segment(turn, parts, counts, self._seed)
                self._segments.append(segment)
                stops = [*self._leaving(segment, end), *([] if end is None else [end])]
                if not stops:
                    return None
                turn = min(stops)
                counts = segment.counts(turn)
        return None

    def _leaving(self, segment: _Segment, end: int | None) -> Iterator[int]:
        """Yield the turns after which sources leave, if that is before *end*."""
        for source, (part, limit) in enumerate(zip(segment.parts, self._limits, strict=True)):
            if not part or limit is None:
                continue
            if end is None or not segment.takes_fewer(source, limit - 1, end):
                yield segment.turn_of(source, limit - 1) + 1

    def _end_of_passes(self, *, first: bool) -> int | None:
        """Return the length if the *first* source that ends, or the last one, ends the mixture."""
        used = [s for s in range(len(self.sizes)) if any(each.parts[s] for each in self.stages)]
        sizes = [(s, self.sizes[s]) for s in used]
        if first:
            again = [self.turn_of(s, size) for s, size in sizes if size is not None]
            return min((turn for turn in again if turn is not None), default=None)
        # An endless source that was removed ends nothing: views from later turns do not know it.
        if any(size is None and self.stages[-1].parts[s] for s, size in sizes):
            return None
        left = [(s, size) for s, size in sizes if size and size > self._first[s]]
        if sizes and not left:
            return self.stages[0].begin
        ends = [self.turn_of(s, size - 1) for s, size in left]
        return max((turn + 1 for turn in ends if turn is not None), default=None)


@lru_cache(maxsize=256)
def turns_of(
    stages: tuple[WeightStage, ...],
    sizes: tuple[int | None, ...],
    stop: str,
    max_epochs: tuple[int | None, ...],
    seed: int,
) -> Turns:
    """Return the turns of a mixture, made once for equal arguments; see `Turns`."""
    return Turns(stages, sizes, stop, max_epochs, seed)


def _pattern(parts: tuple[int, ...], seed: int) -> Pattern:
    # It loads NumPy, which a dispatcher does without until it hands out turns.
    from penstock.protocol.turn_pattern import pattern_of  # noqa: PLC0415

    return pattern_of(parts, seed)

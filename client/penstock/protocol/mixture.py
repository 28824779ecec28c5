"""Mixtures of several sources: which source each turn takes.

A mixture has turns 0, 1, 2 and so on. Turn i takes one element of one source. The source is a
function of the seed, the weights and i, so everyone who knows these has the same sequence, and
nobody walks through the turns before i.

Within a stage of constant weights, the sources follow a pattern that repeats: see `turn_pattern`.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, isfinite, lcm
from typing import Any, Literal, TypeAlias

from penstock.errors import DatasetError
from penstock.protocol.turn_pattern import pattern_of

MOST_PARTS = 1 << 16
"""The most turns of a pattern: shares that need more are rounded."""

STAIRS = 64
"""How many stages of constant weights stand for a linear change."""

Weights: TypeAlias = Mapping[str, float] | Sequence[tuple[int, Mapping[str, float]]]
"""A weight for each source; or points between which weights change linearly, by turn."""

Stop: TypeAlias = Literal["repeat", "first", "all", "drop"]
"""What happens when a source has no more elements; see `Dataset.mixture`."""


@dataclass(frozen=True, slots=True)
class WeightStage:
    """From turn *begin* on, source s has ``parts[s]`` of ``sum(parts)`` turns."""

    begin: int
    parts: tuple[int, ...]
    before: tuple[int, ...] = ()
    """How many elements of each source come before; empty if earlier stages tell."""


def parts_of(weights: Mapping[str, float], names: Sequence[str]) -> tuple[int, ...]:
    """Return how many turns of each pattern the sources *names* have; missing ones have weight 0.

    The parts are exact if the weights, as decimals, need at most `MOST_PARTS` turns. Otherwise
    they are rounded, and each positive weight has at least one turn.

    Raises:
        DatasetError: when a weight is negative or no finite number, all are 0, or a source is
            unknown.
    """
    if not isinstance(weights, Mapping):
        raise DatasetError(
            f"mixture: weights must be a dict of a number for each source, not {weights!r}"
        )
    for name in weights:
        if name not in names:
            known = ", ".join(map(repr, names))
            raise DatasetError(f"mixture: weights name the source {name!r}; there are {known}")
    exact = [_exact(name, weights.get(name, 0)) for name in names]
    if not any(exact):
        raise DatasetError(
            f"mixture: at least one weight must be positive, and {dict(weights)!r} has none"
        )
    return _parts(exact)


def _exact(name: str, weight: Any) -> Fraction:
    try:
        number = weight if isinstance(weight, Fraction) else float(weight)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(weight, (str, bytes)) or not isfinite(number) or number < 0:
        raise DatasetError(
            f"mixture: the weight of {name!r} must be a finite number of at least 0, not {weight!r}"
        )
    return number if isinstance(number, Fraction) else Fraction(repr(number))


def _parts(exact: Sequence[Fraction]) -> tuple[int, ...]:
    unit = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * unit) for weight in exact]
    common = gcd(*whole)
    if sum(whole) // common <= MOST_PARTS:
        return tuple(count // common for count in whole)
    total = sum(exact)
    return _apportioned([weight * MOST_PARTS / total for weight in exact], MOST_PARTS)


def _apportioned(quotas: Sequence[Fraction], total: int) -> tuple[int, ...]:
    """Return whole numbers near *quotas* that sum to *total*: at least 1 for a positive quota."""
    parts = [max(int(quota), int(quota > 0)) for quota in quotas]
    while left := total - sum(parts):
        step = 1 if left > 0 else -1
        able = [s for s, quota in enumerate(quotas) if quota > 0 and parts[s] + step > 0]
        best = max(able, key=lambda s: (step * (quotas[s] - parts[s]), -s))
        parts[best] += step
    return tuple(parts)


def stages_of(weights: Weights, names: Sequence[str]) -> tuple[WeightStage, ...]:
    """Return the stages of *weights* for the sources *names*.

    Between two points, weights change linearly, in up to `STAIRS` stages of constant weights. The
    weights of the last point hold from then on.

    Raises:
        DatasetError: when weights are malformed, or the turns of points do not grow from 0 on.
    """
    if isinstance(weights, Mapping):
        return (WeightStage(0, parts_of(weights, names)),)
    if not isinstance(weights, Sequence):
        raise _no_points(weights)
    points = [_point(each) for each in weights]
    begins = [begin for begin, _ in points]
    if begins[:1] != [0] or any(a >= b for a, b in pairwise(begins)):
        raise DatasetError(
            "mixture: the points of weights must begin at turn 0 and grow, as in "
            f"[(0, {{...}}), (10_000, {{...}})]; they are at {begins}"
        )
    shares = []
    for _, point in points:
        parts = parts_of(point, names)
        shares.append([Fraction(part, sum(parts)) for part in parts])
    made: list[WeightStage] = []
    for (begin, end), (first, last) in zip(pairwise(begins), pairwise(shares), strict=True):
        made += (
            [WeightStage(begin, _parts(first))] if first == last else _line(begin, end, first, last)
        )
    return (*made, WeightStage(begins[-1], _parts(shares[-1])))


def _point(given: Any) -> tuple[int, Mapping[str, float]]:
    if isinstance(given, (tuple, list)) and len(given) == 2:
        begin, weights = given
        if isinstance(begin, int) and not isinstance(begin, bool):
            return begin, weights
    raise _no_points(given)


def _no_points(given: Any) -> DatasetError:
    return DatasetError(
        "mixture: weights must be a dict, or a list of pairs of a turn and a dict, as in "
        f"[(0, {{...}}), (10_000, {{...}})], not {given!r}"
    )


def _line(
    begin: int, end: int, first: Sequence[Fraction], last: Sequence[Fraction]
) -> Iterator[WeightStage]:
    """Yield the stages from *begin* to *end* in which shares go from *first* to *last*."""
    stairs = min(STAIRS, end - begin)
    owed = [Fraction(0)] * len(first)
    for stair in range(stairs):
        start, stop = (begin + (end - begin) * edge // stairs for edge in (stair, stair + 1))
        middle = Fraction(start + stop - 2 * begin, 2 * (end - begin))
        shares = [a + (b - a) * middle for a, b in zip(first, last, strict=True)]
        turns = min(stop - start, MOST_PARTS)
        # What rounding has withheld from a source, a later stair gives to it.
        due = [max(Fraction(0), one * turns + rest) for one, rest in zip(shares, owed, strict=True)]
        parts = _rounded(due, turns)
        owed = [
            one * turns + rest - part for one, rest, part in zip(shares, owed, parts, strict=True)
        ]
        yield WeightStage(start, parts)


def _rounded(quotas: Sequence[Fraction], total: int) -> tuple[int, ...]:
    """Return whole numbers that sum to *total*, in proportion to *quotas*, by largest remainder."""
    scale = total / sum(quotas)
    scaled = [quota * scale for quota in quotas]
    parts = [int(quota) for quota in scaled]
    by_rest = sorted(range(len(parts)), key=lambda s: (parts[s] - scaled[s], s))
    for s in by_rest[: total - sum(parts)]:
        parts[s] += 1
    return tuple(parts)


def changed(stages: Iterable[WeightStage], stage: WeightStage) -> tuple[WeightStage, ...]:
    """Return *stages* with *stage* in place of all that was planned from its turn on."""
    return (*(each for each in stages if each.begin < stage.begin), stage)


def without(stages: Sequence[WeightStage], source: int, turn: int) -> tuple[WeightStage, ...]:
    """Return *stages* in which *source* has no turns from *turn* on."""
    made: list[WeightStage] = []
    for number, stage in enumerate(stages):
        rest = WeightStage(
            max(stage.begin, turn),
            tuple(0 if s == source else part for s, part in enumerate(stage.parts)),
        )
        if stage.begin < turn:
            made.append(stage)
        if number + 1 == len(stages) or stages[number + 1].begin > turn:
            made.append(rest)
    return tuple(made)


def encode(stages: Iterable[WeightStage]) -> str:
    """Return *stages* as a text, which a split carries."""
    known = [(each.begin, each.parts, each.before) for each in stages]
    return json.dumps(known, separators=(",", ":"))


def decode(text: str) -> tuple[WeightStage, ...]:
    """Return the stages that `encode` wrote.

    Raises:
        ValueError: when *text* is something else.
    """
    known = json.loads(text)
    return tuple(WeightStage(begin, tuple(parts), tuple(before)) for begin, parts, before in known)


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
        own = pattern_of(self.parts, self.seed).turns
        return tuple(
            b + rounds * q + bisect_left(turns, rest)
            for b, q, turns in zip(self.before, self.parts, own, strict=True)
        )

    def turn_of(self, source: int, element: int) -> int:
        """Return the turn that takes *element* of *source*, which is in this segment or later."""
        rounds, rest = divmod(element - self.before[source], self.parts[source])
        own = pattern_of(self.parts, self.seed).turns[source]
        return self.begin + rounds * sum(self.parts) + own[rest]

    def takes_fewer(self, source: int, element: int, end: int) -> bool:
        """Return whether *element* of *source* is surely not among those before turn *end*."""
        total = sum(self.parts)
        most = self.before[source] + -(-(end - self.begin) * self.parts[source] // total)
        return most <= element

    def sources(self, start: int, stop: int) -> array[int]:
        """Return the sources of turns *start* to *stop*."""
        pattern = pattern_of(self.parts, self.seed).sources
        first = (start - self.begin) % len(pattern)
        length = stop - start
        rounds = (first + length) // len(pattern) + 1
        return (pattern * rounds)[first : first + length]


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

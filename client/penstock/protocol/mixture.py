"""Mixtures of several sources: which source each turn takes.

A mixture has turns 0, 1, 2 and so on. Turn i takes one element of one source. The source is a
function of the seed, the weights and i, so everyone who knows these has the same sequence, and
nobody walks through the turns before i.

Within a stage of constant weights, the sources follow a pattern that repeats: see `turn_pattern`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, isfinite, lcm
from typing import Any, Literal, TypeAlias

from penstock.errors import DatasetError

MOST_PARTS = 1 << 16
"""The most turns of a pattern: shares that need more are rounded."""

MOST_PARTS_WITH_RARE = 1 << 12
"""About the most turns of a pattern with sources that are too rare for their stage."""

MOST_PARTS_OF_CHANGE = 1 << 12
"""As `MOST_PARTS`, of weights that are set while a job is read: a dispatcher makes the patterns."""

MOST_PARTS_OF_ALL = 1 << 20
"""About the most turns of all patterns together: each source that ends begins another pattern."""

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


def parts_of(
    weights: Mapping[str, float], names: Sequence[str], most: int = MOST_PARTS
) -> tuple[int, ...]:
    """Return how many turns of each pattern the sources *names* have; missing ones have weight 0.

    The parts are exact if the weights, as decimals, need at most *most* turns. Otherwise they are
    rounded, and each positive weight has at least one turn.

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
    return _parts(exact, most)


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


def _parts(exact: Sequence[Fraction], most: int = MOST_PARTS) -> tuple[int, ...]:
    unit = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * unit) for weight in exact]
    common = gcd(*whole)
    if sum(whole) // common <= most:
        return tuple(count // common for count in whole)
    total = sum(exact)
    return _apportioned([weight * most / total for weight in exact], most)


def _apportioned(quotas: Sequence[Fraction], total: int) -> tuple[int, ...]:
    """Return whole numbers near *quotas* that sum to *total*: at least 1 for a positive quota."""
    parts = [max(int(quota), int(quota > 0)) for quota in quotas]
    while left := total - sum(parts):
        step = 1 if left > 0 else -1
        able = [s for s, quota in enumerate(quotas) if quota > 0 and parts[s] + step > 0]
        best = max(able, key=lambda s: (step * (quotas[s] - parts[s]), -s))
        parts[best] += step
    return tuple(parts)


def most_parts(sources: int) -> int:
    """Return the most turns of a pattern if each of so many *sources* may end by itself."""
    return max(MOST_PARTS_OF_CHANGE, min(MOST_PARTS, MOST_PARTS_OF_ALL // sources))


def stages_of(
    weights: Weights, names: Sequence[str], most: int = MOST_PARTS
) -> tuple[WeightStage, ...]:
    """Return the stages of *weights* for the sources *names*, with at most *most* turns a pattern.

    Between two points, weights change linearly, in up to `STAIRS` stages of constant weights. The
    weights of the last point hold from then on.

    Raises:
        DatasetError: when weights are malformed, or the turns of points do not grow from 0 on.
    """
    if isinstance(weights, Mapping):
        return (WeightStage(0, parts_of(weights, names, most)),)
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
        parts = parts_of(point, names, most)
        shares.append([Fraction(part, sum(parts)) for part in parts])
    made: list[WeightStage] = []
    for (begin, end), (first, last) in zip(pairwise(begins), pairwise(shares), strict=True):
        made += (
            [WeightStage(begin, _parts(first, most))]
            if first == last
            else _line(begin, end, first, last, most)
        )
    return (*made, WeightStage(begins[-1], _parts(shares[-1], most)))


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
    begin: int, end: int, first: Sequence[Fraction], last: Sequence[Fraction], most: int
) -> Iterator[WeightStage]:
    """Yield the stages from *begin* to *end* in which shares go from *first* to *last*."""
    stairs = min(STAIRS, end - begin)
    owed = [Fraction(0)] * len(first)
    for stair in range(stairs):
        start, stop = (begin + (end - begin) * edge // stairs for edge in (stair, stair + 1))
        middle = Fraction(start + stop - 2 * begin, 2 * (end - begin))
        shares = [a + (b - a) * middle for a, b in zip(first, last, strict=True)]
        turns = min(stop - start, most)
        # What rounding has withheld from a source, a later stair gives to it.
        due = [max(Fraction(0), one * turns + rest) for one, rest in zip(shares, owed, strict=True)]
        parts = _rounded(due, turns)
        owed = [
            one * turns + rest - part for one, rest, part in zip(shares, owed, parts, strict=True)
        ]
        yield WeightStage(start, _with_rare(parts, shares))


def _with_rare(parts: tuple[int, ...], shares: Sequence[Fraction]) -> tuple[int, ...]:
    """Return *parts*, with some also for sources whose positive share was rounded to nothing.

    Such a source gets no turn in the stage, unless all others have ended: then it is the only one.
    The factor is so large that each other source has as many turns in the stage as before: its last
    deadline in `turn_pattern` stays within the stage.
    """
    rare = sum(share > 0 and not part for part, share in zip(parts, shares, strict=True))
    if not rare:
        return parts
    deadlines = max(1, 2 * sum(share > 0 for share in shares) - 2)
    factor = max(1, min(1 + rare * deadlines, MOST_PARTS_WITH_RARE // sum(parts)))
    return tuple(part * factor or int(share > 0) for part, share in zip(parts, shares, strict=True))


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

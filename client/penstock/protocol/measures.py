"""Measures: numbers that operators add up while they work, such as tokens and padded positions.

Measures are merged by addition, so tasks, attempts and passes have one sum. They count the work
that was done: an operator that makes an output again, after a process died, counts it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

MADE = "made"
"""The measure of an operator's output, in its unit: tokens, bytes or elements."""

POSITIONS, PADDING = "positions", "padding"
"""The measures of entries in outputs that are padded, and of those among them that are padding."""

LARGEST, MEAN = "largest_cost", "mean_cost"
"""The measures of the rounds of `balance`: the largest cost of each round, and the mean cost."""

MOST = 64
"""How many measures are kept of a run, an attempt or a pass; more than that are left out."""

MeasureKey: TypeAlias = tuple[str, str, str, str, str]
"""A measure without its sum."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The *sum* that an operator counted under *name*, in *unit*.

    *path* is the operator's place in the pipeline, *operator* its label. If the operator counts
    each of its inputs by itself, *part* is the name of the input.
    """

    path: str
    operator: str
    name: str
    unit: str
    sum: float
    part: str = ""

    @property
    def key(self) -> MeasureKey:
        """All fields but the sum: measures with one key are added up."""
        return self.path, self.operator, self.name, self.unit, self.part


def merged(one: tuple[Measure, ...], other: tuple[Measure, ...]) -> tuple[Measure, ...]:
    """Return the sums of *one* and *other*, at most `MOST`."""
    if not one or not other:
        return one or other
    sums = {each.key: each for each in one}
    for each in other:
        known = sums.get(each.key)
        sums[each.key] = each if known is None else replace(each, sum=known.sum + each.sum)
    return tuple(islice(sums.values(), MOST))


def added(before: Iterable[Measure], last: tuple[Measure, ...]) -> tuple[Measure, ...]:
    """Return by how much the sums of *last* are above those *before*, as far as they are."""
    known = {each.key: each.sum for each in before}
    grown = (replace(each, sum=each.sum - known.get(each.key, 0)) for each in last)
    return tuple(each for each in grown if each.sum > 0)


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """The figures of an operator, from its measures. As text, a sentence.

    It *made* so much of a *unit* (tokens, bytes or elements), and lately *per_second*.
    *padding_share* is the share of positions that are padding, from 0 to 1. *imbalance* is the
    mean of the largest costs of rounds, divided by the mean cost: 1 if all consumers have the same.
    *shares* has the share of each input of a mixture, from 0 to 1. A figure that the operator does
    not count is None or empty.
    """

    operator: str
    unit: str = ""
    made: int | None = None
    per_second: float | None = None
    padding_share: float | None = None
    imbalance: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        said = []
        if self.made is not None:
            said.append(f"{self.made:,} {self.unit}")
        if self.per_second is not None:
            said.append(f"{self.per_second:,.0f} {self.unit} a second")
        if self.padding_share is not None:
            said.append(f"{100 * self.padding_share:.1f} % padding")
        if self.imbalance is not None:
            said.append(f"imbalance {self.imbalance:.2f}")
        if self.shares:
            parts = (f"{name} {100 * share:.1f} %" for name, share in self.shares.items())
            said.append(f"of {self.unit}: {', '.join(parts)}")
        return f"{self.operator}: {'; '.join(said)}"


def figures_of(
    measures: Iterable[Measure], rates: Mapping[MeasureKey, float] | None = None
) -> tuple[OperatorFigures, ...]:
    """Return the figures of each operator that has *measures*, the outermost first.

    Args:
        measures: sums of a pass, or of a run.
        rates: how much was added a second lately, by measure; None if that is not known.
    """
    by_operator: dict[tuple[str, str], list[Measure]] = {}
    for each in measures:
        by_operator.setdefault((each.path, each.operator), []).append(each)
    return tuple(
        _figures(operator, known, rates) for (_, operator), known in sorted(by_operator.items())
    )


def _figures(
    operator: str, known: list[Measure], rates: Mapping[MeasureKey, float] | None
) -> OperatorFigures:
    sums: dict[str, float] = {}
    for each in known:
        sums[each.name] = sums.get(each.name, 0.0) + each.sum
    made = [each for each in known if each.name == MADE]
    total = sums.get(MADE, 0.0)
    lately = None if rates is None else sum(rates.get(each.key, 0.0) for each in made)
    return OperatorFigures(
        operator,
        made[0].unit if made else "",
        int(total) if made else None,
        lately if made else None,
        _ratio(sums.get(PADDING, 0.0), sums.get(POSITIONS)),
        _ratio(sums.get(LARGEST, 0.0), sums.get(MEAN)),
        {each.part: each.sum / total for each in made if each.part and total > 0},
    )


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None

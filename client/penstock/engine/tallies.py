"""Operators of a run count their work: measures, see `penstock.protocol.measures`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.protocol.measures import (
    LARGEST,
    MADE,
    MEAN,
    MOST,
    PADDING,
    POSITIONS,
    Measure,
)

LONGEST = 250
"""The most characters of a label, and of the name of an input, that are reported."""


@dataclass(slots=True)
class Tally:
    """The sums of one operator, which adds to them; see `penstock.protocol.measures`.

    Inner datasets at one path (of `flat_map` and `interleave`) share a tally. If several threads
    add at one time, a sum may lack one of the numbers, rarely.
    """

    unit: str = ""
    """The unit of *made* and *by_part*."""
    made: float = 0
    by_part: dict[str, float] = field(default_factory=dict)
    """The part of each input in the output, by the input's name; *made* is then 0."""
    positions: int = 0
    padding: int = 0
    largest_cost: float = 0.0
    mean_cost: float = 0.0

    def add_part(self, part: str, number: float) -> None:
        """Add *number* to the sum of the input *part*."""
        self.by_part[part] = self.by_part.get(part, 0) + number

    def measures(self, path: str, operator: str) -> Iterator[Measure]:
        """Yield the sums of the *operator* at *path* that has this tally."""
        if self.made:
            yield Measure(path, operator, MADE, self.unit, self.made)
        for part, number in dict(self.by_part).items():
            yield Measure(path, operator, MADE, self.unit, number, part[:LONGEST])
        if self.positions:
            yield Measure(path, operator, POSITIONS, "positions", self.positions)
            yield Measure(path, operator, PADDING, "positions", self.padding)
        if self.mean_cost > 0:
            yield Measure(path, operator, LARGEST, "cost", max(0.0, self.largest_cost))
            yield Measure(path, operator, MEAN, "cost", self.mean_cost)


class Tallies:
    """The tallies of a run's operators, by path and label; and how many elements it left out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_operator: dict[tuple[str, str], Tally] = {}
        self.skipped = 0
        """How many elements were left out on purpose because they could not be made."""

    def skip(self) -> None:
        """Count an element that is left out. Any thread."""
        with self._lock:
            self.skipped += 1

    def of(self, path: str, label: str, unit: str = "") -> Tally:
        """Return the tally of the operator at *path*. The first `MOST` operators are reported."""
        with self._lock:
            key = path, label
            known = self._by_operator.get(key)
            if known is None:
                known = Tally(unit)
                if len(self._by_operator) < MOST:
                    self._by_operator[key] = known
            return known

    def measures(self) -> tuple[Measure, ...]:
        """Return the sums of all operators up to now. Any thread."""
        with self._lock:
            known = list(self._by_operator.items())
        found = (
            each for (path, label), tally in known for each in tally.measures(path, label[:LONGEST])
        )
        return tuple(found)[:MOST]

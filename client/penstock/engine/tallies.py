"""What operators of a run count while they work: measures, see `penstock.protocol.measures`."""

from __future__ import annotations

import threading

from penstock.protocol.measures import MOST, Measure

LONGEST = 250
"""The most characters of a label, and of the name of an input, that are reported."""


class Tally:
    """The measures of one operator. Any thread.

    Inner datasets at one path (of `flat_map` and `interleave`) share a tally.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str, str], float] = {}

    def add(self, name: str, unit: str, number: float, part: str = "") -> None:
        """Add *number* to the sum of *name*; see `Measure`."""
        key = name, unit, part
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + number

    def sums(self) -> dict[tuple[str, str, str], float]:
        """Return the sums by name, unit and part."""
        with self._lock:
            return dict(self._sums)


class Tallies:
    """The tallies of a run's operators, by path and label; and how many elements it left out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_operator: dict[tuple[str, str], Tally] = {}
        self.skipped = 0
        """How many elements were left out on purpose because they could not be made."""

    def skip(self) -> None:
        """Count an element that is left out."""
        with self._lock:
            self.skipped += 1

    def of(self, path: str, label: str) -> Tally:
        """Return the tally of the operator at *path*. The first `MOST` operators are reported."""
        with self._lock:
            key = path, label
            known = self._by_operator.get(key)
            if known is None:
                known = Tally()
                if len(self._by_operator) < MOST:
                    self._by_operator[key] = known
            return known

    def measures(self) -> tuple[Measure, ...]:
        """Return what all operators counted up to now."""
        with self._lock:
            known = list(self._by_operator.items())
        found = (
            Measure(path, label[:LONGEST], name, unit, number, part[:LONGEST])
            for (path, label), tally in known
            for (name, unit, part), number in tally.sums().items()
        )
        return tuple(found)[:MOST]

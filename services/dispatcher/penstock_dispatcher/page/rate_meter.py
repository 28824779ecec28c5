"""Rates of counters that are looked at again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

LOOKS = 6
"""So many looks make a rate: counters come with heartbeats, one a second, and two looks alone would
see none of them now and two then."""


class RateMeter(Generic[K]):
    """Rates of counters by their names, each over its last `LOOKS` looks."""

    def __init__(self) -> None:
        self._seen: dict[K, deque[tuple[float, int]]] = {}

    def look(self, at: float, counters: Iterable[tuple[K, int]]) -> dict[K, float]:
        """Return how many a second each of *counters* grows; those not given are forgotten.

        A counter that fell, as that of a process which began again, has a rate of 0.
        """
        seen: dict[K, deque[tuple[float, int]]] = {}
        rates = {}
        for name, count in counters:
            looks = self._seen.get(name)
            if looks is None or count < looks[-1][1]:
                looks = deque(maxlen=LOOKS)
            if not looks or at > looks[-1][0]:
                looks.append((at, count))
            (began, first), (ended, last) = looks[0], looks[-1]
            seen[name] = looks
            rates[name] = (last - first) / (ended - began) if ended > began else 0.0
        self._seen = seen
        return rates

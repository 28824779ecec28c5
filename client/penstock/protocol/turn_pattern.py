"""The order in which the sources of a mixture take turns: even, and computed in whole numbers.

Source s has ``parts[s]`` of ``sum(parts)`` turns. Among the first n turns, each source has less
than one turn more or less than its share of n. R. Tijdeman, "The chairman assignment problem",
Discrete Mathematics 32 (1980), shows that it can be done: each element has a first and a last turn
at which it may come. Of the elements that may come, the one with the earliest last turn does.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from hashlib import blake2b
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray


class Pattern:
    """The sources of ``sum(parts)`` turns, and which of these turns each source has."""

    def __init__(self, parts: tuple[int, ...], seed: int) -> None:
        assigned = _assigned(parts, seed)
        self.sources = array("H", assigned.tobytes())
        by_source = np.argsort(assigned, kind="stable").astype(np.uint64)
        ends = np.cumsum(parts)
        self.turns = [
            array("L", by_source[end - part : end].tobytes())
            for part, end in zip(parts, ends.tolist(), strict=True)
        ]


@lru_cache(maxsize=128)
def pattern_of(parts: tuple[int, ...], seed: int) -> Pattern:
    """Return the pattern of *parts*; *seed* decides between elements with one last turn."""
    return Pattern(parts, seed)


def _assigned(parts: tuple[int, ...], seed: int) -> NDArray[np.uint16]:
    """Return the source of each turn: of those that may have it, the one that needs it first."""
    total = sum(parts)
    active = [s for s, part in enumerate(parts) if part]
    if len(active) == 1:
        return np.full(total, active[0], np.uint16)
    owners, begins, lasts = _spans(parts, active)
    ties = np.array([_tie(seed, s) if part else 0 for s, part in enumerate(parts)], np.uint64)
    # Numbers in the order in which elements are needed: a heap of whole numbers is fast.
    by_need = np.lexsort((owners, ties[owners], lasts))
    needs = np.empty(total, np.int64)
    needs[by_need] = np.arange(total)
    by_begin = np.argsort(begins, kind="stable")
    coming = needs[by_begin].tolist()
    stops = np.searchsorted(begins[by_begin], np.arange(1, total + 1), side="right").tolist()
    ready: list[int] = []
    chosen, came = [], 0
    for stop in stops:
        for need in coming[came:stop]:
            heappush(ready, need)
        came = stop
        chosen.append(heappop(ready))
    return owners[by_need[chosen]].astype(np.uint16)


def _spans(
    parts: tuple[int, ...], active: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return of each element its source, and the first and the last turn at which it may come.

    Element j of a source with a share w may come from turn (j + 1/loose) / w on, and must come at
    (j + 1 - 1/loose) / w, where turns count from 1. So a source has one element at a time.
    """
    total, loose = sum(parts), 2 * len(active) - 2
    owners = np.repeat(active, [parts[s] for s in active])
    numbers = np.concatenate([np.arange(parts[s]) for s in active])
    each = np.repeat([parts[s] * loose for s in active], [parts[s] for s in active])
    begins = -(-(numbers * loose + 1) * total // each)
    return owners, begins, ((numbers + 1) * loose - 1) * total // each


def _tie(seed: int, source: int) -> int:
    return int.from_bytes(blake2b(f"{seed}\x1f{source}".encode(), digest_size=8).digest(), "little")

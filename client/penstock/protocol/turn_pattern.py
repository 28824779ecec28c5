"""The order in which the sources of a mixture take turns: even, and computed in whole numbers.

Source s has ``parts[s]`` of ``sum(parts)`` turns. Among the first n turns, each source has less
than one turn more or less than its share of n. R. Tijdeman, "The chairman assignment problem",
Discrete Mathematics 32 (1980), shows that it can be done: each element has a first and a last turn
at which it may come. Of the elements that may come, the one with the earliest last turn does.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b


class Pattern:
    """The sources of ``sum(parts)`` turns, and which of these turns each source has."""

    def __init__(self, parts: tuple[int, ...], seed: int) -> None:
        self.sources = array("H", _assigned(parts, seed))
        self.turns = [array("L") for _ in parts]
        for turn, source in enumerate(self.sources):
            self.turns[source].append(turn)


@lru_cache(maxsize=128)
def pattern_of(parts: tuple[int, ...], seed: int) -> Pattern:
    """Return the pattern of *parts*; *seed* decides between elements with one last turn."""
    return Pattern(parts, seed)


def _assigned(parts: tuple[int, ...], seed: int) -> Iterator[int]:
    """Yield the source of each turn: of those that may have it, the one that needs it first."""
    total = sum(parts)
    active = [s for s, part in enumerate(parts) if part]
    if len(active) == 1:
        yield from active * total
        return
    loose = 2 * len(active) - 2
    ties = {s: _tie(seed, s) for s in active}
    # Element j of a source with a share w may come from turn (j + 1/loose) / w on, and must come
    # at (j + 1 - 1/loose) / w, where turns count from 1.
    waiting = [(-(-total // (parts[s] * loose)), s, 0) for s in active]
    heapq.heapify(waiting)
    ready: list[tuple[int, int, int, int]] = []
    for turn in range(1, total + 1):
        while waiting and waiting[0][0] <= turn:
            _, s, j = heapq.heappop(waiting)
            last = ((j + 1) * loose - 1) * total // (parts[s] * loose)
            heapq.heappush(ready, (last, ties[s], s, j))
        *_, s, j = heapq.heappop(ready)
        yield s
        if j + 1 < parts[s]:
            begin = -(-((j + 1) * loose + 1) * total // (parts[s] * loose))
            heapq.heappush(waiting, (begin, s, j + 1))


def _tie(seed: int, source: int) -> int:
    return int.from_bytes(blake2b(f"{seed}\x1f{source}".encode(), digest_size=8).digest(), "little")

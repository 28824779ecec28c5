"""Where documents of given lengths go: pure decisions, without the documents.

Packs are *bins* of one capacity. The free spaces of all bins are a sorted list: a bisection finds
the tightest bin that fits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence


class OpenBins:
    """Bins with free space, by key. Among bins with equal space, the longest unchanged is first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._spaces: list[int] = []
        """The free spaces that bins have, each once, in rising order."""
        self._keys: dict[int, list[int]] = {}
        """The bins by their free space, longest unchanged first."""

    def fit(
        self, lengths: Sequence[int | None], start: int, stop: int, number: int
    ) -> tuple[list[int], bool]:
        """Put documents with *lengths* from *start* to *stop* into the tightest bins, or new ones.

        They have the numbers from *number* on. A document that begins a bin gives its number to it,
        as the key. It ends when a bin is full, or at a length of None.

        Returns:
            The key of each document's bin, and whether the last one's bin is full: it is removed.
        """
        spaces, bins, capacity = self._spaces, self._keys, self._capacity
        found: list[int] = []
        for at in range(start, min(stop, len(lengths))):
            length = lengths[at]
            if length is None:
                break
            i = bisect_left(spaces, length)
            if i == len(spaces):
                key, left = number + len(found), capacity - length
            else:
                space = spaces[i]
                keys, left = bins[space], space - length
                key = keys.pop(0)
                if not keys:
                    del bins[space], spaces[i]
            found.append(key)
            if not left:
                return found, True
            if left in bins:
                bins[left].append(key)
            else:
                bins[left] = [key]
                insort(spaces, left)
        return found, False

    def add(self, key: int, free: int) -> None:
        """Add a bin with *free* space."""
        if free in self._keys:
            self._keys[free].append(key)
        else:
            self._keys[free] = [key]
            insort(self._spaces, free)

    def fullest(self) -> int | None:
        """Remove the fullest bin; return its key, or None if there is none."""
        if not self._spaces:
            return None
        keys = self._keys[self._spaces[0]]
        key = keys.pop(0)
        if not keys:
            del self._keys[self._spaces.pop(0)]
        return key


def first_fit_decreasing(lengths: Sequence[int], capacity: int) -> list[int]:
    """Return the number of the bin of each document, by first fit, the longest document first.

    Bins are numbered 0, 1, 2, .... Each document goes into the first bin in which it fits. The
    search descends a tree of the most free space, which takes O(log n) steps a document.
    """
    leaves = 1 << max(0, len(lengths) - 1).bit_length()
    most = [capacity] * (2 * leaves)
    bins = [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length, node = lengths[i], 1
        while node < leaves:
            node *= 2
            if most[node] < length:
                node += 1
        bins[i] = node - leaves
        most[node] -= length
        while node > 1:
            node //= 2
            most[node] = max(most[2 * node], most[2 * node + 1])
    return bins


def in_even_rounds(costs: Sequence[float], consumers: int) -> list[int]:
    """Return the output position of each element, so that rounds have elements of equal cost.

    A round is *consumers* consecutive elements. Elements that are neighbours in the order of their
    costs share a round: each consumer takes one, so no other division has a smaller sum of the
    rounds' largest costs. Rounds come in the order of their first elements, and the elements of a
    round in their own order, so neither depends on the costs. If a round is short, it is that of
    the smallest costs, and comes last.
    """
    order = sorted(range(len(costs)), key=lambda i: (-costs[i], i))
    rounds = [sorted(order[i : i + consumers]) for i in range(0, len(order), consumers)]
    rounds.sort(key=lambda members: (len(members) < consumers, members[0]))
    positions = [0] * len(costs)
    for position, i in enumerate(i for members in rounds for i in members):
        positions[i] = position
    return positions

"""Where documents of given lengths go: pure decisions, without the documents.

Packs are *bins* of one capacity. The free space of all bins is kept in a set of bits, so the
tightest bin that fits is found in constant time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

_WORD = 512


class FreeSpaces:
    """A set of integers from 0 to *most*; finds the smallest that is large enough.

    Each word holds `_WORD` members, and one integer says which words have any.
    """

    def __init__(self, most: int) -> None:
        self._words = [0] * (most // _WORD + 1)
        self._used = 0

    def add(self, space: int) -> None:
        """Add a member."""
        word, bit = divmod(space, _WORD)
        self._words[word] |= 1 << bit
        self._used |= 1 << word

    def remove(self, space: int) -> None:
        """Remove a member."""
        word, bit = divmod(space, _WORD)
        self._words[word] &= ~(1 << bit)
        if not self._words[word]:
            self._used &= ~(1 << word)

    def at_least(self, space: int) -> int | None:
        """Return the smallest member of at least *space*; None if there is none."""
        word, bit = divmod(space, _WORD)
        if word >= len(self._words):
            return None
        if found := self._words[word] >> bit:
            return space + _lowest(found)
        if not (more := self._used >> (word + 1)):
            return None
        word += 1 + _lowest(more)
        return word * _WORD + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


class OpenBins:
    """Bins with free space, by key. Among bins with equal space, the longest unchanged is first."""

    def __init__(self, capacity: int) -> None:
        self._spaces = FreeSpaces(capacity)
        self._keys: dict[int, deque[int]] = {}
        """The bins by their free space, longest unchanged first."""

    def add(self, key: int, free: int) -> None:
        """Add a bin with *free* space, or add it again after `tightest` removed it."""
        keys = self._keys.get(free)
        if keys is None:
            keys = self._keys[free] = deque()
            self._spaces.add(free)
        keys.append(key)

    def tightest(self, length: int) -> tuple[int, int] | None:
        """Remove the fullest bin in which *length* fits; return its key and its free space."""
        free = self._spaces.at_least(length)
        if free is None:
            return None
        keys = self._keys[free]
        key = keys.popleft()
        if not keys:
            del self._keys[free]
            self._spaces.remove(free)
        return key, free


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

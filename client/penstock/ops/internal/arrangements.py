"""Which elements leave together, and when: for `pack`, `token_batches` and `balance`.

An `Arrangement` decides the group of each element, and which group leaves next. It is told how much
each element costs (its tokens, or what the user's function says), and never looks at elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

from penstock.ops.internal.group_buffer import GroupedElement, Groups, held_then
from penstock.ops.internal.packing import OpenBins


class Arrangement(ABC):
    """Decides which elements leave together, and when."""

    def __init__(self, size: int) -> None:
        self.size = size
        """What a state says of the size of each group."""
        self.held = Groups()
        """The elements that wait."""

    @property
    @abstractmethod
    def wanted(self) -> int:
        """How many elements must come, at least, before a group leaves."""

    @abstractmethod
    def put(self, costs: Sequence[Any], at: int, number: int) -> list[int]:
        """Take in the elements that *costs* has from *at* on; they are *number*, *number* + 1, ....

        It takes at least one. It stops after an element with which a group is `due`, and before an
        element whose cost is None. The caller adds the elements to `held`.

        Returns:
            The key of each element's group.
        """

    @abstractmethod
    def due(self) -> int | None:
        """Return a group that leaves before the next element is taken in, if any."""

    @abstractmethod
    def rest(self) -> int | None:
        """Return a group that leaves at the end of the input; the caller removes it."""

    @abstractmethod
    def restore(self, costs: Sequence[tuple[GroupedElement, float]]) -> None:
        """Continue with the elements that `held` has, in the input's order with their costs."""


class BestFit(Arrangement):
    """Packs of at most *capacity*: each element goes into the fullest pack in which it fits.

    A pack leaves when it is full. If more than *buffer* elements wait, the fullest one leaves.
    """

    def __init__(self, capacity: int, buffer: int) -> None:
        super().__init__(capacity)
        self._capacity, self._buffer = capacity, buffer
        self._bins = OpenBins(capacity)
        self._full: list[int] = []
        """Packs that are full."""

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return self._buffer + 1 - self.held.count

    def put(self, costs: Sequence[Any], at: int, number: int) -> list[int]:
        """See `Arrangement.put`."""
        room = self._buffer + 1 - self.held.count
        keys, full = self._bins.fit(costs, at, at + room, number)
        if full:
            self._full.append(keys[-1])
        return keys

    def due(self) -> int | None:
        """See `Arrangement.due`."""
        if self._full:
            return self._full.pop()
        return self.rest() if self.held.count > self._buffer else None

    def rest(self) -> int | None:
        """See `Arrangement.rest`."""
        return self._bins.fullest()

    def restore(self, costs: Sequence[tuple[GroupedElement, Any]]) -> None:
        """See `Arrangement.restore`."""
        for key, used in _by_last_change(costs).items():
            if used < self._capacity:
                self._bins.add(key, self._capacity - used)
            else:
                self._full.append(key)


class NextFit(Arrangement):
    """Packs of consecutive elements: one leaves as soon as an element does not fit any more."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._capacity = capacity
        self._keys: deque[int] = deque()
        """The packs that are here: the last one is open."""
        self._used = 0

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return 1

    def put(self, costs: Sequence[Any], at: int, number: int) -> list[int]:
        """See `Arrangement.put`."""
        keys: list[int] = []
        for i in range(at, len(costs)):
            cost = costs[i]
            if cost is None or len(self._keys) > 1:
                break
            if self._used + cost > self._capacity or not self._keys:
                self._keys.append(number + len(keys))
                self._used = 0
            self._used += cost
            keys.append(self._keys[-1])
        return keys

    def due(self) -> int | None:
        """See `Arrangement.due`."""
        return self._keys.popleft() if len(self._keys) > 1 else None

    def rest(self) -> int | None:
        """See `Arrangement.rest`."""
        return self._keys.popleft() if self._keys else None

    def restore(self, costs: Sequence[tuple[GroupedElement, Any]]) -> None:
        """See `Arrangement.restore`."""
        for key, used in _by_last_change(costs).items():
            self._keys.append(key)
            self._used = used


class Windows(Arrangement):
    """Groups within a window of *size* elements, which all leave before the next window.

    *divide* returns the number of each element's group, by the costs of all. Groups leave in the
    order of their numbers. While a window is filled, its elements have the key 0.
    """

    def __init__(self, size: int, divide: Callable[[list[Any]], list[int]]) -> None:
        super().__init__(size)
        self._divide = divide
        self._costs: list[float] = []
        self._leaving: deque[int] = deque()
        """The keys of the groups of a full window that are still here."""

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return self.size - self.held.count

    def put(self, costs: Sequence[Any], at: int, number: int) -> list[int]:  # noqa: ARG002
        """See `Arrangement.put`."""
        room = self.size - len(self._costs)
        came = list(takewhile(_is_known, costs[at : at + room]))
        self._costs += came
        return [0] * len(came)

    def due(self) -> int | None:
        """See `Arrangement.due`."""
        if len(self._costs) >= self.size:
            self._close_window()
        return self._leaving.popleft() if self._leaving else None

    def rest(self) -> int | None:
        """See `Arrangement.rest`."""
        if self._costs:
            self._close_window()
        return self.due()

    def restore(self, costs: Sequence[tuple[GroupedElement, float]]) -> None:
        """See `Arrangement.restore`."""
        if 0 in self.held.elements:
            self._costs = [cost for _, cost in costs]
        else:
            self._leaving = deque(sorted(self.held.elements))

    def _close_window(self) -> None:
        groups, held = self._divide(self._costs), self.held
        arrivals, elements = held_then(held.mark()), held.elements[0]
        held.remove(0)
        for group, arrival, element in zip(groups, arrivals, elements, strict=True):
            held.add(GroupedElement(group + 1, arrival.size, arrival.place), element)
        self._costs, self._leaving = [], deque(sorted(held.elements))


def _is_known(cost: float | None) -> bool:
    return cost is not None


def _by_last_change(costs: Iterable[tuple[GroupedElement, Any]]) -> dict[int, Any]:
    """Return the cost of each group, in the order in which their last elements came."""
    used: dict[int, Any] = {}
    for arrival, cost in costs:
        used[arrival.key] = used.pop(arrival.key, 0) + cost
    return used

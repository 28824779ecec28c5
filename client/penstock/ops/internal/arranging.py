"""What `pack`, `token_batches` and `balance` share: elements wait until their groups leave.

An `Arrangement` decides the group of each element, and which group leaves next. It is told how much
each element costs (its tokens, or what the user's function says), and never looks at elements.

State: ``[groups, parts, pieces]``. The first two describe the elements that wait, by their numbers,
see `penstock.ops.internal.group_buffer`. Of the next element of the input, *pieces* whole pieces
have left already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import StateError
from penstock.graph.node import Node
from penstock.ops.internal.group_buffer import GroupedElement, Groups, InputPosition
from penstock.ops.internal.group_input import Slot, group_input
from penstock.ops.internal.packing import OpenBins


class Arrangement(ABC):
    """Decides which elements leave together, and when."""

    def __init__(self) -> None:
        self.held = Groups()
        """The elements that wait."""

    @property
    @abstractmethod
    def wanted(self) -> int:
        """How many elements must come, at least, before a group leaves."""

    @abstractmethod
    def put(self, element: Element, cost: float, place: InputPosition) -> int | None:
        """Take in an element. Return the group that leaves now, if any; the caller removes it."""

    @abstractmethod
    def due(self) -> int | None:
        """Return another group that leaves before the next element is taken in, if any."""

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
        super().__init__()
        self._capacity, self._buffer = capacity, buffer
        self._bins = OpenBins()
        self._full: list[int] = []
        """Packs that were full when a state was taken."""

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return self._buffer + 1 - self.held.count

    def put(self, element: Element, cost: Any, place: InputPosition) -> int | None:
        """See `Arrangement.put`."""
        bins, capacity = self._bins, self._capacity
        key, free = bins.tightest(cost) or (place.number, capacity)
        self.held.add(GroupedElement(key, capacity, place), element)
        if free == cost:
            return key
        bins.add(key, free - cost)
        return self.rest() if self.held.count > self._buffer else None

    def due(self) -> int | None:
        """See `Arrangement.due`."""
        if self._full:
            return self._full.pop()
        return self.rest() if self.held.count > self._buffer else None

    def rest(self) -> int | None:
        """See `Arrangement.rest`."""
        fullest = self._bins.tightest(0)
        return None if fullest is None else fullest[0]

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
        super().__init__()
        self._capacity = capacity
        self._keys: deque[int] = deque()
        """The packs that are here: the last one is open."""
        self._used = 0

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return 1

    def put(self, element: Element, cost: Any, place: InputPosition) -> int | None:
        """See `Arrangement.put`."""
        fits = self._used + cost <= self._capacity
        if not fits or not self._keys:
            self._keys.append(place.number)
            self._used = 0
        self._used += cost
        self.held.add(GroupedElement(self._keys[-1], self._capacity, place), element)
        return self.due()

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
        super().__init__()
        self._size, self._divide = size, divide
        self._costs: list[float] = []
        self._leaving: deque[int] = deque()
        """The keys of the groups of a full window that are still here."""

    @property
    def wanted(self) -> int:
        """See `Arrangement.wanted`."""
        return self._size - self.held.count

    def put(self, element: Element, cost: float, place: InputPosition) -> int | None:
        """See `Arrangement.put`."""
        self._costs.append(cost)
        self.held.add(GroupedElement(0, self._size, place), element)
        return self.due()

    def due(self) -> int | None:
        """See `Arrangement.due`."""
        if len(self._costs) >= self._size:
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
        arrivals, elements = held.mark()(), held.elements[0]
        held.remove(0)
        for group, arrival, element in zip(groups, arrivals, elements, strict=True):
            held.add(GroupedElement(group + 1, arrival.size, arrival.place), element)
        self._costs, self._leaving = [], deque(sorted(held.elements))


def _by_last_change(costs: Iterable[tuple[GroupedElement, Any]]) -> dict[int, Any]:
    """Return the cost of each group, in the order in which their last elements came."""
    used: dict[int, Any] = {}
    for arrival, cost in costs:
        used[arrival.key] = used.pop(arrival.key, 0) + cost
    return used


class Intake(Protocol):
    """What an operator makes of elements before they wait, and of a group that leaves."""

    def measure(self, element: Element, number: int) -> tuple[int, float | None]:
        """Return how many whole pieces element *number* has, and the cost of what is left of it.

        The cost is None if nothing is left that waits.
        """
        ...

    def whole(self, element: Element, piece: int) -> Element:
        """Return an output that is whole piece number *piece* of *element*."""
        ...

    def left(self, element: Element, whole: int) -> Element:
        """Return what waits of *element*: the part after its *whole* pieces."""
        ...

    def join(self, group: list[Element]) -> Element:
        """Return an output of the elements of a group."""
        ...


class ArrangingIterator(OpIterator):
    """The outputs of an *arrangement* of the elements of *upstream*."""

    def __init__(
        self,
        op: str,
        intake: Intake,
        arrangement: Arrangement,
        upstream: Node,
        context: Context,
        state: State,
    ) -> None:
        self._pieces: int = (state and state[2]) or 0
        """How many whole pieces of the next element have left."""
        self._op, self._intake, self._arrangement, self._state = op, intake, arrangement, state
        self._held = arrangement.held
        self._supply = group_input(op, upstream, context, state and state[:2])
        self._inputs: deque[Slot] = deque()
        """The elements of the input's last block that were not taken in yet."""
        self._typical = 1
        """How many elements the last group had."""
        self._restored = self._supply.restored
        self._befores: list[Callable[[], State]] = []
        """The positions before the elements of the last block."""
        self._leaving: int | None = None
        """The group that leaves next, once the arrangement has said so."""
        self._ended = False
        self._failed_below = False
        """Whether the last error was one of the input, so that nothing here is to be dropped."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._befores = []
        if not self._restored:
            self._restore()
        out: list[Element] = []
        while len(out) < n:
            try:
                made = self._next(n, wait=not out)
            except ELEMENT_ERRORS:
                if out:  # it is met again by the next call
                    break
                self._forget()
                raise
            if made is None:
                break
            out += made
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        if not self._restored:
            state = self._state
            return lambda _: state
        places = [*self._befores, self._place()]
        return lambda back: places[-1 - back]()

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._supply.close()

    def _place(self) -> Callable[[], State]:
        held, at, pieces = self._held.mark(), self._supply.mark(self._inputs), self._pieces
        return lambda: at(held(), pieces)

    def _restore(self) -> None:
        """Hold the elements again that the state names."""
        self._supply.restore(self._held)
        intake, held = self._intake, self._held
        costs = []
        rows = {key: iter(elements) for key, elements in held.elements.items()}
        left: dict[int, list[Element]] = {key: [] for key in rows}
        for arrival in held.mark()():
            element = next(rows[arrival.key])
            whole, cost = self._measured_again(element, arrival)
            costs.append((arrival, cost))
            left[arrival.key].append(intake.left(element, whole))
        held.elements.update(left)
        self._arrangement.restore(costs)
        self._restored = True

    def _measured_again(self, element: Element, arrival: GroupedElement) -> tuple[int, float]:
        number, cause = arrival.place.number, None
        try:
            whole, cost = self._intake.measure(element, number)
        except ELEMENT_ERRORS as exc:
            whole, cost, cause = 0, None, exc
        if cost is None:
            raise StateError(
                f"{self._op}: element {number} is not the one that waited when the state was "
                "taken: give the dataset the data that it had then"
            ) from cause
        return whole, cost

    def _next(self, n: int, *, wait: bool) -> list[Element] | None:
        """Return the next output, or an empty list if the next element makes none.

        None is the end; or, without *wait*, that the input must be read. After an error nothing has
        changed.
        """
        if self._leaving is None:
            self._leaving = self._arrangement.due()
        if self._leaving is None and not self._inputs and not self._ended:
            if not wait:
                return None
            self._read(n)
        if self._leaving is None and (piece := self._take_in()) is not None:
            return [piece]
        if self._leaving is None and self._ended:
            self._leaving = self._arrangement.rest()
        if self._leaving is not None:
            return self._leave(self._leaving)
        return None if self._ended else []

    def _read(self, n: int) -> None:
        """Read a block of the input."""
        most = max(1, self._arrangement.wanted) + (n - 1) * self._typical
        try:
            self._inputs.extend(self._supply.pull(most))
        except ELEMENT_ERRORS:
            self._failed_below = True
            raise
        self._ended = not self._inputs

    def _take_in(self) -> Element | None:
        """Take in elements until a group leaves; or return the next whole piece of one."""
        inputs, measure, left = self._inputs, self._intake.measure, self._intake.left
        put = self._arrangement.put
        while inputs:
            element, place = inputs[0]
            whole, cost = measure(element, place.number)
            if self._pieces < whole:
                return self._cut(element, whole, nothing_left=cost is None)
            self._next_input()
            if cost is not None:
                self._leaving = put(left(element, whole), cost, place)
                if self._leaving is not None:
                    break
        return None

    def _cut(self, element: Element, whole: int, *, nothing_left: bool) -> Element:
        made = self._intake.whole(element, self._pieces)
        self._befores.append(self._place())
        self._pieces += 1
        if nothing_left and self._pieces == whole:
            self._next_input()
        return made

    def _next_input(self) -> None:
        self._inputs.popleft()
        self._pieces = 0

    def _leave(self, key: int) -> list[Element]:
        """Return the output of a group, and remove it."""
        group = self._held.elements[key]
        made = self._intake.join(group)
        self._befores.append(self._place())
        self._remove(key)
        self._typical = len(group)
        return [made]

    def _remove(self, key: int) -> None:
        self._held.remove(key)
        self._leaving = None

    def _forget(self) -> None:
        """Drop what failed: a group that cannot be joined, or else the next element."""
        if self._failed_below:
            self._failed_below = False
        elif self._leaving is not None:
            self._remove(self._leaving)
        else:
            self._next_input()

"""What `pack`, `token_batches` and `balance` share: elements wait until their groups leave.

An `Arrangement` decides which group leaves, see `penstock.ops.internal.arrangements`.

State: ``[groups, parts, pieces]``. The first two describe the elements that wait, by their numbers,
see `penstock.ops.internal.group_buffer`. Of the next element of the input, *pieces* whole pieces
have left already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import StateError
from penstock.graph.node import Node
from penstock.ops.internal.arrangements import Arrangement
from penstock.ops.internal.group_buffer import GroupedElement
from penstock.ops.internal.group_input import Slot, group_input


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

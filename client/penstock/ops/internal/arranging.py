"""What `pack`, `token_batches` and `balance` share: elements wait until their groups leave.

An `Arrangement` decides which group leaves, see `penstock.ops.internal.arrangements`.

State: ``[groups, parts, pieces]``. The first two describe the elements that wait, by their numbers,
see `penstock.ops.internal.group_buffer`. Of the next element of the input, *pieces* whole pieces
have left already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import StateError
from penstock.graph.node import Node
from penstock.ops.internal.arrangements import Arrangement
from penstock.ops.internal.group_buffer import NO_INPUT, GroupedElement, Held, held_then
from penstock.ops.internal.group_input import group_input

MOST_OUTPUTS = 64
"""The most outputs of a block: packs of a few thousand tokens then stay in a processor's cache."""


class Intake(Protocol):
    """What an operator makes of elements before they wait, and of a group that leaves."""

    def costs(self, elements: Sequence[Element]) -> list[float | None]:
        """Return the cost of each element that waits as it is; None for one to `measure`."""
        ...

    def measure(self, element: Element, number: int) -> tuple[int, float | None]:
        """Return how many whole pieces element *number* has, and the cost of what is left of it.

        The cost is None if nothing is left that waits.
        """
        ...

    def whole(self, element: Element, piece: int) -> Element:
        """Return an output that is whole piece number *piece* of *element*."""
        ...

    def left(self, element: Element, whole: int) -> Element:
        """Return what waits of *element*: itself, or the part after its *whole* pieces."""
        ...

    def join(self, group: list[Element]) -> Element:
        """Return an output of the elements of a group."""
        ...


_Place: TypeAlias = tuple[Held, int, int]
"""The position before an output, as far as it differs between the outputs of a block: the held
elements, how many of the input's block were taken in, and how many pieces of the next one left."""


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
        self._inputs: list[Element] = []
        """The elements of the input's last block, of which the first `_at` were taken in."""
        self._places = NO_INPUT
        """Their positions."""
        self._costs: list[float | None] = []
        """What `Intake.costs` says of them."""
        self._at = 0
        self._typical = 1
        """How many elements the last group had."""
        self._restored = self._supply.restored
        self._befores: list[_Place] = []
        """The positions before the elements of the last block. All have one block of the input."""
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
        n = min(n, MOST_OUTPUTS)
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
        outputs, places, state = [*self._befores, self._place()], self._places, self._supply.mark()

        def at(back: int) -> State:
            held, start, pieces = outputs[-1 - back]
            return state(held_then(held), places.rest(start), pieces)

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._supply.close()

    def _place(self) -> _Place:
        return self._held.mark(), self._at, self._pieces

    def _restore(self) -> None:
        """Hold the elements again that the state names."""
        self._supply.restore(self._held)
        intake, held = self._intake, self._held
        costs = []
        rows = {key: iter(elements) for key, elements in held.elements.items()}
        left: dict[int, list[Element]] = {key: [] for key in rows}
        for arrival in held_then(held.mark()):
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
        if self._leaving is None and self._at == len(self._inputs) and not self._ended:
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
            block, self._places = self._supply.pull(most)
        except ELEMENT_ERRORS:
            self._failed_below = True
            raise
        self._inputs = [*block]  # the block is another's, and parts of elements are put in here
        self._costs, self._at = self._intake.costs(self._inputs), 0
        self._ended = not self._inputs

    def _take_in(self) -> Element | None:
        """Take in elements until a group leaves; or return the next whole piece of one."""
        inputs, costs, places, put = self._inputs, self._costs, self._places, self._arrangement.put
        while (at := self._at) < len(inputs):
            number = places.first + at
            if costs[at] is None:
                whole, cost = self._intake.measure(inputs[at], number)
                if self._pieces < whole:
                    return self._cut(inputs[at], whole, nothing_left=cost is None)
                self._pieces = 0
                if cost is None:
                    self._at += 1
                    continue
                inputs[at], costs[at] = self._intake.left(inputs[at], whole), cost
            keys = put(costs, at, number)
            stop = self._at = at + len(keys)
            self._held.add_all(keys, self._arrangement.size, places, at, inputs[at:stop])
            self._leaving = self._arrangement.due()
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
        self._at += 1
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

"""The input of operators that group elements. After a restore, it reads buffered elements again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, cast

from penstock.element import Element
from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, OpIterator, State
from penstock.engine.unacked import joined, only_tags, unacked_exactly
from penstock.errors import Closed, StateError
from penstock.graph.node import Node
from penstock.graph.traversal import walk
from penstock.ops.internal.group_buffer import (
    MOST,
    Event,
    GroupedElement,
    Groups,
    InputBlock,
    InputPosition,
    nowhere,
    written,
)
from penstock.ops.internal.tracked_shuffle import (
    TrackedInput,
    cuts,
    is_straight,
    keeps_nothing,
)

At: TypeAlias = Callable[[Sequence[GroupedElement], InputBlock, State], State]
"""Returns the state, given the held elements, those that were pulled and are in no group yet, and
the group that is being read."""


class GroupInput(Protocol):
    """The input of an operator that groups elements."""

    @property
    def restored(self) -> bool:
        """Whether all elements that the state's buffer held are held again."""
        ...

    def restore(self, held: Groups) -> None:
        """Read the held elements again. After an error, another call skips the failed element."""
        ...

    def pull(self, n: int) -> tuple[list[Element], InputBlock]:
        """Read up to *n* elements, none at the end."""
        ...

    def mark(self) -> At:
        """Capture the position of the element that the next `pull` reads first."""
        ...

    def close(self) -> None:
        """Close the input; nothing more is opened."""
        ...


class ReplayedGroupInput:
    """A `GroupInput` that can be read again from any position; if *once*, from the oldest only."""

    def __init__(
        self,
        op: str,
        open_input: Callable[[State], OpIterator],
        state: State,
        *,
        once: bool = False,
    ) -> None:
        groups, parts = state or ([], [[None, 0, 0, []]])
        self._op = op
        self._open, self._most_parts = open_input, 1 if once else MOST
        self._groups: list[tuple[int, int]] = [(key, size) for key, size in groups]
        self._parts: deque[tuple[State, int, int, list[Event]]] = deque(map(tuple, parts))
        self._pace = BlockSizer()
        self._closed = False
        self._input: OpIterator
        self._number = 0
        """The number of the next element."""
        self._errors = 0
        """How many errors came before it."""
        self._events: deque[Event] = deque()
        """The events of this part that are still to be read again."""
        self._begin()

    @property
    def restored(self) -> bool:
        """See `GroupInput.restored`."""
        return not self._events and not self._parts

    def restore(self, held: Groups) -> None:
        """See `GroupInput.restore`."""
        while not self.restored:
            self._check_open()
            if self._events:
                self._repeat(self._events[0], held)
            else:
                self._input.close()
                self._begin()

    def pull(self, n: int) -> tuple[list[Element], InputBlock]:
        """See `GroupInput.pull`."""
        self._check_open()
        try:
            block = self._pace.read(self._input, n)
        except ELEMENT_ERRORS:
            self._errors += 1
            raise
        return block, self._positions(len(block))

    def mark(self) -> At:
        """See `GroupInput.mark`."""
        behind = InputPosition(self._number, self._errors, self._input.mark(), 0)

        def at(held: Sequence[GroupedElement], waiting: InputBlock, current: State) -> State:
            ahead = waiting.place(0) if waiting.size else behind
            return [*written(held, ahead, most=self._most_parts), current]

        return at

    def close(self) -> None:
        """See `GroupInput.close`."""
        self._closed = True
        self._input.close()

    def _begin(self) -> None:
        below, self._number, self._errors, events = self._parts.popleft()
        self._events = deque(events)
        self._input = self._open(below)
        if self._closed:  # by another thread, which did not see it
            self._input.close()

    def _positions(self, count: int) -> InputBlock:
        """Return the positions of the *count* elements of the last block."""
        first = self._number
        self._number += count
        return InputBlock(first, self._errors, self._input.mark(), count)

    # --- reading again ---

    def _repeat(self, event: Event, held: Groups) -> None:
        if isinstance(event, list):
            self._events.popleft()
            self._pass_over(*event)
        elif event < 0:
            self._events.popleft()
            self._number -= event
            self._check(self._input.skip(-event) == -event)
        else:
            self._replay_elements(_held_first(self._events), held)

    def _pass_over(self, elements: int, errors: int) -> None:
        """Read *elements* elements and *errors* errors; `skip` might count elements that fail."""
        self._errors += errors
        while elements or errors:
            self._check_open()
            try:
                block = self._input.block(elements or 1)
            except ELEMENT_ERRORS:
                if errors:
                    errors -= 1
                else:  # it did not fail in the earlier run
                    elements -= 1
                    self._number += 1
                continue
            self._check(bool(block))
            if elements:
                elements -= len(block)
                self._number += len(block)
            else:
                errors -= 1  # it failed in the earlier run

    def _replay_elements(self, run: list[int], held: Groups) -> None:
        """Read elements of these groups, or the first of them."""
        try:
            block = self._input.block(len(run))
        except ELEMENT_ERRORS:
            self._events.popleft()  # its group is one short
            self._number += 1
            raise
        self._check(bool(block))
        places = self._positions(len(block))
        for i, (element, group) in enumerate(zip(block, run, strict=False)):
            self._events.popleft()
            held.add(GroupedElement(*self._groups[group], places.place(i)), element)

    def _check(self, more: bool) -> None:
        if not more:
            raise StateError(
                f"{self._op}: the input ends before element {self._number}, but it had more "
                "when the state was taken: give the dataset the data that it had then"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this iterator was closed while it filled its groups")


class TrackedGroupInput:
    """A `GroupInput` of unacked elements.

    State: the unacked tags and the input's state, see `penstock.engine.unacked`. Opened at a state,
    it begins with empty groups, because their elements were requeued and come again.

    If only these elements come again, in the order in which they came, a state may also say to
    which group each belongs. The input is *alike* if it then makes the same elements again.
    """

    def __init__(self, lender: TrackedInput, state: State, *, alike: bool) -> None:
        groups, parts = state or ([], [[None, 0, 0, []]])
        self._input, self._alike = lender, alike
        self._groups: list[tuple[int, int]] = [(key, size) for key, size in groups]
        _, number, _, events = cast("tuple[State, int, int, list[Event]]", parts[0])
        self._number, self._events = number, deque(events)
        """The number of the next element, and the events that are still to be read again."""

    @property
    def restored(self) -> bool:
        """See `GroupInput.restored`."""
        return not self._events

    def restore(self, held: Groups) -> None:
        """See `GroupInput.restore`."""
        while self._events:
            run = _held_first(self._events)
            if run:
                self._replay_elements(run, held)
            else:
                self._number -= cast("int", self._events.popleft())

    def pull(self, n: int) -> tuple[list[Element], InputBlock]:
        """See `GroupInput.pull`."""
        block, made_of = self._input.pull(n)
        first = self._number
        self._number += len(block)
        return block, InputBlock(first, 0, nowhere, len(block), made_of)

    def mark(self) -> At:
        """See `GroupInput.mark`."""
        input_owes, below = self._input.mark()
        number = self._number

        def at(held: Sequence[GroupedElement], waiting: InputBlock, current: State) -> State:
            behind = InputPosition(number, 0, nowhere, 0)
            ahead = waiting.place(0) if waiting.size else behind
            owed = only_tags([*(arrival.place.origin for arrival in held), *waiting.origins])
            source = below()

            def again() -> State:
                groups, ((_, *events),) = written(held, ahead, most=1)
                return [groups, [[source, *events]], current]

            place = [[], [[source, number, 0, []]], None]
            owes = joined((owed, input_owes))
            return unacked_exactly(owes, place, again if self._alike else None)

        return at

    def close(self) -> None:
        """See `GroupInput.close`."""
        self._input.close()

    def _replay_elements(self, run: list[int], held: Groups) -> None:
        """Read elements of these groups, or the first of them."""
        try:
            block, places = self.pull(len(run))
        except ELEMENT_ERRORS:
            self._events.popleft()  # its group is one short
            self._number += 1
            raise
        if not block:
            self._events.clear()  # the input is not the same: begin with the elements that came
        for i, (element, group) in enumerate(zip(block, run, strict=False)):
            self._events.popleft()
            held.add(GroupedElement(*self._groups[group], places.place(i)), element)


def group_input(op: str, upstream: Node, context: Context, state: State) -> GroupInput:
    """Return the input of operator *op* that reads the elements of *upstream* from *state* on."""
    tracked = context.sessions is not None and any(
        stage.op == "distribute" for _, stage in walk(upstream)
    )
    if not tracked or cuts(upstream):  # for pieces, the oldest one is enough
        return ReplayedGroupInput(
            op, lambda below: context.open(upstream, below), state, once=tracked
        )
    source = context.open(upstream, state[1][0][0] if state else None)
    lender = TrackedInput(source, straight=is_straight(upstream))
    return TrackedGroupInput(lender, state, alike=keeps_nothing(upstream))


def _held_first(events: Iterable[Event]) -> list[int]:
    """Return the groups of the elements that come before anything else."""
    run: list[int] = []
    for event in events:
        if isinstance(event, list) or event < 0:
            break
        run.append(event)
    return run

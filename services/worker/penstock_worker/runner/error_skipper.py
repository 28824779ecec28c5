"""An engine that leaves out the elements that cannot be made, and counts them.

State: ``{"on_error": elements left out of the task so far, "at": the state of what it runs}``.
So the count belongs to a place in the task's stream. A job that is saved without this may go on
with it, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.element import Element
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OneInputIterator, OpIterator, State
from penstock.ops.ignore_errors import belongs_to_element

LeftOut = Callable[[int, int, Exception], None]
"""Is told how many elements were left out so far, which number the last has, and its error."""


def unwrapped(state: Any) -> tuple[int, State]:
    """Return how many elements were left out before *state*, and the state of what runs."""
    if isinstance(state, dict) and state.keys() == {"on_error", "at"}:
        return int(state["on_error"]), state["at"]
    return 0, state


class ErrorSkipper(OneInputIterator):
    """The elements of *engine* that can be made: its next one is element *number* of the task."""

    def __init__(self, engine: OpIterator, number: int, count: int, on_left_out: LeftOut) -> None:
        self._upstream, self._on_left_out = engine, on_left_out
        self._number, self.count = number + count, count
        self._below = engine.mark()

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        while True:
            try:
                block = self._upstream.block(n)
            except ELEMENT_ERRORS as exc:
                self._leave_out(exc)
            else:
                self._below = self._upstream.mark()
                self._number += len(block)
                return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`. Elements left out before an element stay left out."""
        count, below = self.count, self._below
        return lambda back: {"on_error": count, "at": below(back)}

    def _leave_out(self, error: Exception) -> None:
        before, self._below = self._below, self._upstream.mark()
        try:
            if not belongs_to_element(error, before, self._below):
                raise error
            number = self._number
            self._number, self.count = number + 1, self.count + 1
            self._on_left_out(self.count, number, error)
        finally:
            del error  # or the error would keep this frame, and with it the engine, for ever

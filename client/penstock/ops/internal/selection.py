"""`sample_from_datasets` and `choose_from_datasets`: a selector says which dataset is next.

State: ``[the selector's state, which datasets have ended, each dataset's state]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.element import Element
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN, Node

AHEAD = 64
"""The most elements of a dataset to read at once, if the caller wants that many in all."""


class Director(Protocol):
    """Says which dataset gives the next element."""

    def turn(self, live: Sequence[bool]) -> int | None:
        """Return whose turn it is; None at the end. Repeated calls return the same, until `done`.

        If it is the turn of a dataset that is not *live*, the turn is skipped.
        """

    def done(self) -> None:
        """End this turn."""

    def can_go_on(self) -> bool:
        """Return whether the next turn is known; finding it out may move the position of marks."""

    def mark(self) -> Callable[[int], State]:
        """Capture the position; *back* counts turns, as far back as `can_go_on` was true."""

    def close(self) -> None:
        """Close everything."""


class DirectedIterator(OpIterator):
    """Elements of *inputs*, one at a time, as *director* says.

    With *stop* the first dataset that ends where its turn comes is the end of all.
    """

    def __init__(
        self, director: Director, inputs: list[OpIterator], ended: list[bool], *, stop: bool
    ) -> None:
        self._director, self._inputs, self._stop = director, inputs, stop
        self._live = [not over for over in ended]
        self._held: list[list[Element]] = [[] for _ in inputs]
        """The elements of each input's last block that were not returned yet."""
        self._last: list[int] = []
        """Which input gave each element of the last block."""
        self._turns: list[int] = []
        """How many turns each of these elements took, with skipped turns of ended datasets."""
        self._spare = 0
        """How many turns were skipped since then."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Ends where something must be read again whose mark it needs."""
        self._last, self._turns, self._spare = [], [], 0
        out: list[Element] = []
        while len(out) < n and any(self._live):
            if not self._director.can_go_on():
                if out:
                    break
                self._spare = 0  # the position has moved: nothing before it is of any use
            turn = self._turn(out)
            if turn is None or not self._give(turn, n, out):
                break
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        director, last, turns, spare = self._director.mark(), self._last, self._turns, self._spare
        places = [(x.mark(), len(h)) for x, h in zip(self._inputs, self._held, strict=True)]
        ended = [int(not live) for live in self._live]

        def at(back: int) -> State:
            behind = last[len(last) - back :]
            below = [mark(held + behind.count(i)) for i, (mark, held) in enumerate(places)]
            passed = sum(turns[len(turns) - back :]) + spare if back else 0
            return [director(passed), ended, below]

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._director.close()
        for upstream in self._inputs:
            upstream.close()

    def _turn(self, out: list[Element]) -> int | None:
        """Return whose turn it is; None where this block, or everything, ends."""
        try:
            return self._director.turn(self._live)
        except ELEMENT_ERRORS:
            if out:
                return None  # it is raised again, behind these
            self._director.done()
            raise

    def _give(self, turn: int, n: int, out: list[Element]) -> bool:
        """Append the element of this turn, if there is one; return False where the block ends."""
        if self._live[turn]:
            if not self._held[turn]:
                if out:
                    return False
                self._held[turn] = self._inputs[turn].block(min(n, AHEAD))
            if not self._held[turn]:
                self._live[turn] = False
                if self._stop:
                    self._live = [False] * len(self._live)
                return True  # who is next in its place, the director says
            out.append(self._held[turn].pop(0))
            self._last.append(turn)
            self._turns.append(self._spare + 1)
            self._spare = 0
        else:
            self._spare += 1
        self._director.done()
        return True


def check_datasets(op: str, nodes: Sequence[Any]) -> None:
    """Check that there are datasets.

    Raises:
        DatasetError: naming the operator.
    """
    if not nodes:
        raise DatasetError(f"{op}: datasets must not be empty")


def joint_cardinality(nodes: Sequence[Node], *, stop: bool) -> int:
    """Return how many elements directed reading of *nodes* gives, as far as it can be known."""
    sizes = [node.cardinality for node in nodes]
    if stop:
        return INFINITE if all(size == INFINITE for size in sizes) else UNKNOWN
    if INFINITE in sizes:
        return INFINITE
    return UNKNOWN if UNKNOWN in sizes else sum(sizes)

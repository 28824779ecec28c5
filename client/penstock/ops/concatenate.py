"""`concatenate`: one dataset, then another.

State: ``[the first one's state, the second one's]``. The first is open until it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import TransformError
from penstock.graph.node import INFINITE, UNKNOWN, Node

_LAST = 2**63 - 1
"""No number is larger."""


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """The elements of *upstream*, then those of *other*."""

    op: ClassVar[str] = "concatenate"
    upstream: Node
    other: Node

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        first, second = self.upstream.cardinality, self.other.cardinality
        if INFINITE in (first, second):
            return INFINITE
        return UNKNOWN if UNKNOWN in (first, second) else first + second

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        parts = self._parts()
        below = [found for node in parts if (found := node.by_number())]
        if len(below) < len(parts):
            return None
        sizes = (node.cardinality for node in parts)
        stops = np.array([min(stop, _LAST) for stop in accumulate(sizes)], np.int64)

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], TransformError | None]:
            made: list[Element] = [None] * len(numbers)
            whose, end = np.searchsorted(stops, numbers, "right"), len(numbers)
            failed = error = None
            try:
                for part in np.unique(whose).tolist():
                    at = np.flatnonzero(whose[:end] == part)
                    elements, error = below[part](numbers[at] - (stops[part - 1] if part else 0))
                    for place, element in zip(at.tolist(), elements, strict=False):
                        made[place] = element
                    if error is not None:
                        failed, end = error, int(at[len(elements)])
                return made[:end], failed
            finally:
                del failed, error  # or they would keep this frame, and it the iterator, forever

        return fetch

    def _parts(self) -> list[Node]:
        """Return the datasets that this node and nested ones concatenate, first to last."""
        parts: list[Node] = []
        stack: list[Node] = [self]
        while stack:
            match stack.pop():
                case Concatenate(upstream, other):
                    stack += [other, upstream]
                case node:
                    parts.append(node)
        return parts

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. Both are opened at once, so that the state has a position in each."""
        first, second = state or (None, None)
        return _ConcatenateIterator(
            context.open(self.upstream, first), context.open(self.other, second, branch=1)
        )


class _ConcatenateIterator(RowsIterator):
    def __init__(self, first: OpIterator, second: OpIterator) -> None:
        self._first, self._second = first, second
        self._in_second = False

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if not self._in_second:
            if block := self._first.rows(n):
                return block
            self._in_second = True
        return self._second.rows(n)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        first, second = self._first.mark(), self._second.mark()
        if self._in_second:
            return lambda back: [first(0), second(back)]
        return lambda back: [first(back), second(0)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        skipped = 0
        if not self._in_second:
            skipped = self._first.skip(n)
            self._in_second = skipped < n
        return skipped + (self._second.skip(n - skipped) if skipped < n else 0)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._first.close()
        self._second.close()

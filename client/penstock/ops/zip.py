"""`zip`: the elements of several datasets side by side, as long as the shortest.

State: ``[1 at the end, [each input's state]]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, rebuild
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, Mark, OpIterator, State
from penstock.engine.rows import elements_of
from penstock.errors import TransformError
from penstock.graph.node import INFINITE, UNKNOWN, Node, function


@dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements of *upstreams* side by side: as a tuple, or in the places of the nest *like*."""

    op: ClassVar[str] = "zip"
    upstreams: tuple[Node, ...]
    like: Any = function(default=None)
    """A nest with as many leaves as there are inputs; None is a plain tuple."""

    @property
    def label(self) -> str:
        """See `Node.label`."""
        return self.op

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        sizes = [node.cardinality for node in self.upstreams]
        if UNKNOWN in sizes:
            return UNKNOWN
        return min((size for size in sizes if size != INFINITE), default=INFINITE)

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`. An element that one input fails to make, fails."""
        below = [found for node in self.upstreams if (found := node.by_number())]
        join = self._join()

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], TransformError | None]:
            columns: list[list[Element]] = []
            failed = error = None
            try:
                for each in below:
                    made, error = each(numbers)
                    failed, numbers = error or failed, numbers[: len(made)]
                    columns.append(elements_of(made))
                rows = list(zip(*(column[: len(numbers)] for column in columns), strict=True))
                return (rows if join is None else list(map(join, rows))), failed
            finally:
                del failed, error  # or they would keep this frame, and it the iterator, forever

        return fetch if len(below) == len(self.upstreams) else None

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. All are opened at once, so that the state has a position in each."""
        ended, below = state or (0, [None] * len(self.upstreams))
        inputs = [
            context.open(node, place, branch=i)
            for i, (node, place) in enumerate(zip(self.upstreams, below, strict=True))
        ]
        return _ZipIterator(inputs, self._join(), bool(ended))

    def _join(self) -> Callable[[Sequence[Element]], Element] | None:
        like = self.like
        return None if like is None else lambda parts: rebuild(like, parts)


class _ZipIterator(OpIterator):
    def __init__(
        self,
        inputs: list[OpIterator],
        join: Callable[[Sequence[Element]], Element] | None,
        ended: bool,
    ) -> None:
        self._inputs, self._join, self._ended = inputs, join, ended
        self._held: list[list[Element]] = [[] for _ in inputs]
        """The elements of each input's last block that were not returned yet. An input is asked for
        more only when none is held, so its mark reaches back to all of them."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        if self._ended:
            return []
        for i, upstream in enumerate(self._inputs):
            if not self._held[i]:
                self._held[i] = upstream.block(n)
            n = min(n, len(self._held[i]))
            if not n:
                self._ended = True
                return []
        rows = list(zip(*(held[:n] for held in self._held), strict=True))
        self._held = [held[n:] for held in self._held]
        return rows if self._join is None else list(map(self._join, rows))

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        ended = int(self._ended)
        places = [(x.mark(), len(h)) for x, h in zip(self._inputs, self._held, strict=True)]
        return lambda back: [ended, [mark(held + back) for mark, held in places]]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if self._ended or not n:
            return 0
        skipped = [self._skip_in(i, n) for i in range(len(self._inputs))]
        self._ended = min(skipped) < n
        return min(skipped)

    def close(self) -> None:
        """See `OpIterator.close`."""
        for upstream in self._inputs:
            upstream.close()

    def _skip_in(self, i: int, n: int) -> int:
        held = self._held[i]
        self._held[i] = held[n:]
        return n if n <= len(held) else len(held) + self._inputs[i].skip(n - len(held))

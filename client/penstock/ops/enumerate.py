"""`enumerate`: each element with its number. State: ``[elements so far, the input's state]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, Mark, OneInputIterator, OpIterator, State
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import Node
from penstock.options import check_count

_BEHIND = 2**63
"""The largest number that fits, plus 1."""


@dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """Pairs of a number, from *start* on, and an element."""

    op: ClassVar[str] = "enumerate"
    one_to_one: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    start: int

    def __post_init__(self) -> None:
        start = check_count("enumerate", "start", self.start, least=-(2**63))
        object.__setattr__(self, "start", start)

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        below, start = self.upstream.by_number(), self.start
        if below is None or start + self.cardinality > _BEHIND:
            return None

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], TransformError | None]:
            made, failed = below(numbers)
            try:
                return list(zip(numbers[: len(made)] + start, made, strict=True)), failed
            finally:
                del failed  # or an error would keep this frame, and with it the iterator, forever

        return fetch

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, below = state or (0, None)
        return _EnumerateIterator(context.open(self.upstream, below), self.start, number)


class _EnumerateIterator(OneInputIterator):
    def __init__(self, upstream: OpIterator, start: int, number: int) -> None:
        self._upstream, self._start, self._number = upstream, start, number

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        first = self._start + self._number
        block = self._upstream.block(max(1, min(n, _BEHIND - first)))
        if block and first == _BEHIND:
            raise DatasetError(
                f"enumerate: element {self._number}, counted from {self._start}, has a number that "
                "does not fit int64: begin with a smaller one"
            )
        self._number += len(block)
        return list(zip(first + np.arange(len(block), dtype=np.int64), block, strict=True))

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, below = self._number, self._upstream.mark()
        return lambda back: [number - back, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        skipped = self._upstream.skip(n)
        self._number += skipped
        return skipped

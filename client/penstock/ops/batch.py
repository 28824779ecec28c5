"""`batch`: runs of elements, stacked.

State: the input's state at the first element of the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.element import Element, collate
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.graph import Node, check_count


@dataclass(frozen=True, eq=False)
class Batch(Node):
    """Runs of *size* consecutive elements, each leaf stacked along a new first axis."""

    op: ClassVar[str] = "batch"
    own_stream: ClassVar[bool] = True
    upstream: Node
    size: int
    drop_remainder: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count("batch", "batch_size", self.size))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return batches(self.upstream.cardinality, self.size, self.drop_remainder)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        upstream = context.open(self.upstream, state)
        return GroupsIterator(upstream, self.size, self.drop_remainder, collate)


def batches(elements: int, size: int, drop_remainder: bool) -> int:
    """Return the cardinality of batches of *size* over a cardinality of *elements*."""
    if elements < 0:
        return elements
    return elements // size if drop_remainder else -(-elements // size)


class GroupsIterator(OpIterator):
    """Runs of *size* elements, each made into one element by *join*."""

    def __init__(
        self,
        upstream: OpIterator,
        size: int,
        drop_remainder: bool,
        join: Callable[[Sequence[Any]], Element],
    ) -> None:
        self._upstream = upstream
        self._size, self._drop, self._join = size, drop_remainder, join
        self._pending: list[Element] = []
        self._mark = upstream.mark()
        self._reach = 0
        """How far back, in input elements, the input's mark is valid."""
        self._first = (self._mark, 0)
        """Where the first batch of the last block began: a mark of the input, and how far back."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        size, pending = self._size, self._pending
        self._first = (self._mark, len(pending))
        last = 0
        while len(pending) < size:
            got = self._upstream.block(n * size - len(pending))
            last = len(got)
            pending += got
            if not got:
                return self._rest()
        whole = len(pending) // size
        out = [self._join(pending[i * size : (i + 1) * size]) for i in range(whole)]
        del pending[: whole * size]
        self._mark = self._upstream.mark()
        self._reach = last
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`.

        Only the first batch of a block may begin before the last block of input: more input is
        asked for only while there is not enough for one batch.
        """
        mark, reach, left, size = self._mark, self._reach, len(self._pending), self._size
        first, first_back = self._first

        def at(back: int) -> State:
            behind = left + back * size
            return mark(behind) if behind <= reach or not back else first(first_back)

        return at

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if self._pending:
            return super().skip(n)
        elements = self._upstream.skip(n * self._size)
        self._mark, self._reach = self._upstream.mark(), 0
        return batches(elements, self._size, self._drop)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._upstream.close()

    def _rest(self) -> list[Element]:
        """Return the last, short group, if there is one and it is wanted."""
        rest = [] if self._drop or not self._pending else [self._join(self._pending)]
        self._pending = []
        self._mark, self._reach = self._upstream.mark(), 0
        return rest

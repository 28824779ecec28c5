"""`batch`: consecutive elements, stacked.

State: see `penstock.ops.internal.input_buffer`, of the next batch's start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from penstock.element import Element, collate
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.engine.rows import Block, Rows
from penstock.graph.node import Node
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Batch(Node):
    """Runs of *size* consecutive elements, each leaf stacked along a new first axis."""

    op: ClassVar[str] = "batch"
    per_task: ClassVar[bool] = True
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
        held = InputBuffer(context, self.upstream, state, rows=True)
        held.input.expect_batches(self.size)
        return GroupsIterator(held, self.size, self.drop_remainder, _stacked)


def _stacked(run: Block) -> Element:
    return run.hand_over() if isinstance(run, Rows) else collate(run)


def batches(elements: int, size: int, drop_remainder: bool) -> int:
    """Return the cardinality of batches of *size* over a cardinality of *elements*."""
    if elements < 0:
        return elements
    return elements // size if drop_remainder else -(-elements // size)


class GroupsIterator(OpIterator):
    """Runs of *size* elements, each made into one element by *join*.

    After an error in the input, the elements that follow fill the same run. An error of *join*
    belongs to the run, which is dropped.
    """

    def __init__(
        self,
        held: InputBuffer,
        size: int,
        drop_remainder: bool,
        join: Callable[[Block], Element],
    ) -> None:
        self._held = held
        self._size, self._drop, self._join = size, drop_remainder, join
        self._first = 0
        """The input element that the last block began with."""
        self._made = 0
        """How many elements the last block had."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        held, size = self._held, self._size
        self._begin()
        while len(held.elements) < size:
            if not held.pull(n * size - len(held.elements)):
                return self._rest()
        return self._join_runs(min(n, len(held.elements) // size), size)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        at, first, made = self._held.mark(), self._first, self._made
        stop, size = self._held.start, self._size
        # The last run may be short, but then it is also the first of its block.
        return lambda back: at(first if back == made else stop - back * size)

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        self._begin()
        if self._held.has_failed:
            return super().skip(n)
        elements = self._held.skip(n * self._size)
        self._begin()
        return batches(elements, self._size, self._drop)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._held.close()

    def _begin(self) -> None:
        self._held.begin()
        self._first, self._made = self._held.start, 0

    def _join_runs(self, runs: int, size: int) -> list[Element]:
        held, join = self._held, self._join
        out: list[Element] = []
        try:  # elements joined before an error stay in the list
            out.extend(join(held.elements[i : i + size]) for i in range(0, runs * size, size))
        except ELEMENT_ERRORS:
            if not out:
                held.use(size)
                self._begin()
                raise
        held.use(len(out) * size)
        self._made = len(out)
        return out

    def _rest(self) -> list[Element]:
        """Return the last, short run, if there is one and it is wanted."""
        held = self._held
        size = len(held.elements)
        if size and not self._drop:
            return self._join_runs(1, size)
        held.use(size)
        self._begin()
        return []

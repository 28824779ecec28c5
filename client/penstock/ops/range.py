"""`range`: integers. State: see `penstock.ops.internal.unit_cursor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, OpIterator, State
from penstock.engine.rows import Block, Numbers, Rows, Table
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.protocol.types import SourceSlice


@dataclass(frozen=True, eq=False)
class Range(Node):
    """The int64 scalars from *start* to *stop*, *step* apart."""

    op: ClassVar[str] = "range"
    start: int
    stop: int
    step: int

    def __post_init__(self) -> None:
        for name in ("start", "stop", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise DatasetError(f"range: {name} must be an integer, not {value!r}")
            if not -(2**63) <= int(value) < 2**63:
                raise DatasetError(f"range: {name} must fit int64, which {value} does not")
            object.__setattr__(self, name, int(value))
        if self.step == 0:
            raise DatasetError("range: step must not be 0")

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        sign = 1 if self.step > 0 else -1
        # Not len(range(...)), which gives up at 2**63.
        return max(0, (self.stop - self.start + self.step - sign) // self.step)

    def units(self) -> int:
        """See `Node.units`."""
        return self.cardinality

    def part(self, cut: SourceSlice) -> Range | None:
        """See `Node.part`."""
        left = cut.of(range(self.cardinality))
        first, step = self.start + left.start * self.step, left.step * self.step
        if not left or left[0] == left[-1]:
            return Range(first, first + 1, 1) if left else Range(0, 0, 1)
        if not -(2**63) <= step < 2**63:
            return None
        return Range(first, self.start + left[-1] * self.step + (1 if step > 0 else -1), step)

    def by_number(self) -> ByNumber:
        """See `Node.by_number`."""

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], None]:
            return list(numbers * self.step + self.start), None

        return fetch

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _RangeIterator(self, context, state)


class _RangeIterator(UnitsIterator):
    def __init__(self, node: Range, context: Context, state: State) -> None:
        super().__init__(context, node.cardinality, state)
        self._table = RangeTable(node)

    def fetch(self, start: int, stop: int) -> tuple[Block, None]:
        """See `UnitsIterator.fetch`."""
        rows = Rows(self._table, range(start, stop))
        return rows if stop < 2**63 else rows.elements(), None


class RangeTable(Table):
    """The numbers of a `Range`, which are nowhere in memory."""

    kept = True

    def __init__(self, node: Range) -> None:
        self._node, self._start, self._step = node, node.start, node.step

    @property
    def source(self) -> object:
        """See `Table.source`."""
        return self._node

    def elements(self, which: Numbers) -> list[Element]:
        """See `Table.elements`."""
        return list(self.stacked(which))

    def stacked(self, which: Numbers) -> NDArray[np.int64]:
        """See `Table.stacked`. Also without rows."""
        if not isinstance(which, range):
            return which * self._step + self._start
        # As Python's numbers, and then as int64, though what lies between may not fit.
        run = np.arange(len(which), dtype=np.int64)
        if not len(run):
            return run
        run *= np.int64((which.step * self._step + _HALF) % (2 * _HALF) - _HALF)
        run += np.int64(self._start + which.start * self._step)
        return run


_HALF = 2**63

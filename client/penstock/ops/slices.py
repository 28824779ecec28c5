"""`from_tensor_slices`: arrays, cut along their first axis; `from_tensors`: arrays as one element.

State of both: see `penstock.ops.internal.unit_cursor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, leaves, map_leaves, own_nest, read_only
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, OpIterator, State
from penstock.engine.rows import ArrayTable, Block, Rows, stacks_alike
from penstock.errors import DatasetError
from penstock.graph.node import Node, arrays
from penstock.normalise import as_arrays, normalise
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.ops.range import Range
from penstock.protocol.types import SourceSlice


@dataclass(frozen=True, eq=False)
class Slices(Node):
    """Row after row of the arrays in *tensors*, in the same nest."""

    op: ClassVar[str] = "from_tensor_slices"
    tensors: Element = arrays()

    def __post_init__(self) -> None:
        tensors = as_arrays(self.tensors)
        object.__setattr__(self, "tensors", tensors)
        _check_rows(tensors)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return len(leaves(self.tensors)[0])

    def units(self) -> int:
        """See `Node.units`."""
        return self.cardinality

    def part(self, cut: SourceSlice) -> Slices:
        """See `Node.part`."""
        return Slices(map_leaves(cut.of, self.tensors))

    def by_number(self) -> ByNumber:
        """See `Node.by_number`."""
        table = _table(self.tensors)

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], None]:
            return table.elements(numbers), None

        return fetch

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _SlicesIterator(self, context, state)


class _SlicesIterator(UnitsIterator):
    def __init__(self, node: Slices, context: Context, state: State) -> None:
        super().__init__(context, node.cardinality, state)
        self._table, self._stacks = _table(node.tensors), stacks_alike(node.tensors)

    def fetch(self, start: int, stop: int) -> tuple[Block, None]:
        """See `UnitsIterator.fetch`."""
        rows = Rows(self._table, range(start, stop))
        return rows if self._stacks else rows.elements(), None


def _table(tensors: Element) -> ArrayTable:
    # Not subclasses of arrays, such as memory maps, whose rows are memory maps again.
    return ArrayTable(tensors, [read_only(np.asarray(leaf)) for leaf in leaves(tensors)])


def _check_rows(tensors: Element) -> None:
    """Check that all arrays have equally many rows.

    Raises:
        DatasetError: naming two that differ, or one without rows.
    """
    named = list(_named("", tensors))
    if not named:
        raise DatasetError("from_tensor_slices: tensors must hold an array, but it is empty")
    for name, array in named:
        if not array.ndim:
            raise DatasetError(
                f"from_tensor_slices: {name} is a scalar, which has no slices; "
                "use from_tensors for a single element"
            )
    first_name, first = named[0]
    for name, array in named:
        if len(array) != len(first):
            raise DatasetError(
                "from_tensor_slices: all arrays must have the same first dimension, but "
                f"{first_name} has {len(first)} rows and {name} has {len(array)}"
            )


def _named(path: str, element: Element) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield each array with the path to it, for messages."""
    if isinstance(element, tuple):
        for i, part in enumerate(element):
            yield from _named(f"{path}[{i}]", part)
    elif isinstance(element, dict):
        for key, part in element.items():
            yield from _named(f"{path}[{key!r}]", part)
    else:
        yield f"tensors{path}", element


@dataclass(frozen=True, eq=False)
class Tensors(Node):
    """The element *tensors*, once."""

    op: ClassVar[str] = "from_tensors"
    tensors: Element = arrays()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", normalise(as_arrays(self.tensors)))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return 1

    def units(self) -> int:
        """See `Node.units`."""
        return 1

    def part(self, cut: SourceSlice) -> Node:
        """See `Node.part`."""
        return self if cut.of((self,)) else Range(0, 0, 1)

    def by_number(self) -> ByNumber:
        """See `Node.by_number`."""
        element = read_only(self.tensors)

        def fetch(numbers: NDArray[np.int64]) -> tuple[list[Element], None]:
            return [own_nest(element) for _ in range(len(numbers))], None

        return fetch

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _TensorsIterator(self, context, state)


class _TensorsIterator(UnitsIterator):
    def __init__(self, node: Tensors, context: Context, state: State) -> None:
        super().__init__(context, 1, state)
        self._element = read_only(node.tensors)

    def fetch(self, start: int, stop: int) -> tuple[list[Element], None]:
        """See `UnitsIterator.fetch`."""
        return [own_nest(self._element)] * (stop - start), None

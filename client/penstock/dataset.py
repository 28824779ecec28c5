"""`Dataset`: the fluent face of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.element import NestedDataset
from penstock.engine.iterator import State
from penstock.engine.root import DatasetIterator
from penstock.graph import Node
from penstock.ops.batch import Batch
from penstock.ops.map import Map
from penstock.ops.range import Range


class Dataset(NestedDataset):
    """An immutable recipe for elements; nothing runs until it is read.

    Every method returns a new dataset:

    >>> list(Dataset.range(6).map(lambda x: x * x).batch(4))
    [array([0, 1, 4, 9]), array([16, 25])]
    """

    __slots__ = ("__weakref__", "node")

    def __init__(self, node: Node) -> None:
        self.node = node

    # --- sources ---

    @staticmethod
    def range(*args: int) -> Dataset:
        """Return int64 scalars, as `range` does: ``(stop)``, ``(start, stop)`` or with a step."""
        full = range(*args)
        return Dataset(Range(full.start, full.stop, full.step))

    # --- operators ---

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Apply *map_func* to each element."""
        return Dataset(Map(self.node, map_func, num_parallel_calls, deterministic is not False))

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Stack *batch_size* consecutive elements; the last batch may be short."""
        return Dataset(Batch(self.node, batch_size, drop_remainder))

    # --- reading ---

    def cardinality(self) -> int:
        """Return how many elements there are, or `INFINITE`, or `UNKNOWN`."""
        return self.node.cardinality

    def iterator(self, state: State = None) -> DatasetIterator:
        """Return an iterator, from *state* on if one is given."""
        return DatasetIterator(self.node, state)

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self.node)

"""The base class of `Dataset`: a node, without the methods that users call."""

from __future__ import annotations

from typing import ClassVar

from penstock.element import NestedDataset
from penstock.graph.node import Node
from penstock.graph.traversal import check_extent


class DatasetBase(NestedDataset):
    """A graph of stages, seen from its last."""

    __slots__ = ("__weakref__", "_node")

    concrete: ClassVar[type[DatasetBase]]
    """`Dataset` itself, for operators that make datasets and stand below it."""

    def __init__(self, node: Node) -> None:
        check_extent(node)
        self._node = node

    @property
    def node(self) -> Node:
        """The last stage of the graph, as data: for tools that look at pipelines.

        >>> Dataset.range(3).batch(2).node.op
        'batch'
        """
        return self._node

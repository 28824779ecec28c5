"""A stretch of a dataset's elements, opened where it begins without making those before it.

That needs a dataset whose element k is a function of k, such as a source with an index and a
parallel `map` after it. Random numbers are those of element k, wherever a stretch begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.graph.node import UNKNOWN, Node
from penstock.ops.batch import Batch
from penstock.ops.concatenate import Concatenate
from penstock.ops.counter import Counter
from penstock.ops.enumerate import Enumerate
from penstock.ops.filter import Filter
from penstock.ops.ignore_errors import IgnoreErrors
from penstock.ops.map import Map, MapBatches
from penstock.ops.prefetch import Prefetch
from penstock.ops.random import Random
from penstock.ops.range import Range
from penstock.ops.repeat import Repeat
from penstock.ops.sequence import Sequence
from penstock.ops.shard import Shard
from penstock.ops.slices import Slices, Tensors
from penstock.ops.take import Skip, Take
from penstock.ops.with_options import WithOptions
from penstock.ops.zip import Zip
from penstock.protocol.types import SourceSlice

_MAKERS = Map, MapBatches, Prefetch, WithOptions
_SOURCES = Range, Sequence, Slices, Tensors, Counter, Random
_SKIPPING = *_MAKERS, Batch, Concatenate, Enumerate, Repeat, Shard, Skip, Take, Zip


_indexed: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
"""Answers of `is_indexed`: a mixture asks for each input, each time that it is opened."""


def is_indexed(node: Node) -> bool:
    """Return whether element k of *node* is a function of k, and can be made without the others."""
    known = _indexed.get(node)
    if known is None:
        known = _indexed[node] = _has_index(node)
    return known


def _has_index(node: Node) -> bool:
    if node.unordered or node.cardinality == UNKNOWN:
        return False
    if node.source() is not node:
        return True
    return isinstance(node, (*_SOURCES, *_SKIPPING)) and all(map(is_indexed, node.inputs))


def obstacle(node: Node) -> Node | None:
    """Return the operator that keeps *node* from being read by an index; None: it can be.

    Operators after an index may drop elements, and change each by itself.
    """
    if is_indexed(node):
        return None
    passes = isinstance(node, (*_MAKERS, Filter, IgnoreErrors)) and not node.per_task
    if node.unordered or not (passes or isinstance(node, _SKIPPING)) or not node.inputs:
        return node
    if not passes:
        below = [found for each in node.inputs if (found := obstacle(each)) is not None]
        return below[0] if below else node
    return obstacle(node.inputs[0])


def index_in(node: Node) -> Node:
    """Return the part of *node* whose element k is a function of k; `obstacle` found none."""
    return node if is_indexed(node) else index_in(node.inputs[0])


def stretch_of(node: Node, start: int, stop: int) -> Node:
    """Return what *node* makes of elements *start* to *stop* of its index."""
    if is_indexed(node):
        return _Stretch(node, stop, start)
    return replace(node, upstream=stretch_of(node.inputs[0], start, stop))  # type: ignore[call-arg]


@dataclass(frozen=True, eq=False)
class _Stretch(Take):
    """Elements *start* to *count* of *upstream*, without those before."""

    start: int = 0

    @property
    def label(self) -> str:
        """See `Node.label`."""
        return self.upstream.label

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. All tasks have the same random numbers for an element."""
        node, begin = _from(self.upstream, self.start, self.count)
        return node.open(context.alike(), begin if state is None else state)


@dataclass(frozen=True, eq=False)
class _Jump(Skip):
    """The elements after the first *count*, which are not made."""

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        upstream = context.open(self.upstream, state)
        if state is None:
            upstream.skip(self.count)
        return upstream


def _from(node: Node, start: int, stop: int) -> tuple[Node, State]:
    """Return the graph of elements *start* to *stop* of *node*, and the state to open it at."""
    match node:
        case Map() | MapBatches() | Enumerate():
            below, state = _from(node.upstream, start, stop)
            return replace(node, upstream=below), [start, state]
        case Prefetch() | WithOptions():
            below, state = _from(node.upstream, start, stop)
            return replace(node, upstream=below), state
        case Take():
            return _from(node.upstream, start, stop)
        case Skip() if node.count >= 0:
            return _from(node.upstream, start + node.count, stop + node.count)
    source = node.source()
    part = None if source.inputs else source.part(SourceSlice(start, stop))
    return part or Take(_Jump(node, start), stop - start), None

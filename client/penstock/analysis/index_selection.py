"""`shard`, `take`, `skip`, `enumerate` and `global_shuffle` by index: what tasks run for them.

Under dynamic sharding a task sees the elements that it drew, so an operator that counts elements
would count those. Where element k comes from unit k of a source, the source itself is restricted
instead, before it is divided: all tasks together then yield the elements of a local run. A dataset
that is shuffled by its index is a source itself: its units are positions of the order. So is a
mixture: its units are turns.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import DatasetError
from penstock.graph.node import UNKNOWN, Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.assert_cardinality import AssertCardinality
from penstock.ops.batch import Batch
from penstock.ops.cache import Cache
from penstock.ops.concatenate import Concatenate
from penstock.ops.enumerate import Enumerate
from penstock.ops.map import Map
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.prefetch import Prefetch
from penstock.ops.range import Range
from penstock.ops.shard import HINTED, Shard
from penstock.ops.snapshot import Snapshot
from penstock.ops.take import Skip, Take
from penstock.ops.with_options import WithOptions
from penstock.ops.zip import Zip
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import SourceSlice

_EVERYTHING, _NOTHING = SourceSlice(), SourceSlice(0, 0)
_LAST = 2**63 - 1


def selected(root: Node) -> Node:
    """Return the graph that tasks run which divide the elements of *root*.

    Operators that count elements and cannot be left to a source stay, except `shard`.

    Raises:
        DatasetError: when a `shard` cannot be left to a source, with the ways out.
    """
    return rewritten(root, _Selector().swap)


class _Selector:
    """Makes stages of a graph again; the ones below them were."""

    def __init__(self) -> None:
        self._done: dict[tuple[int, SourceSlice], Node | None] = {}
        self._alive: list[Node] = []
        """The nodes whose ids are in `_done`: an id is valid while its node lives."""

    def swap(self, node: Node) -> Node:
        """Return what tasks run in place of *node*."""
        match node:
            case Take(upstream, count):
                return upstream if count < 0 else self._cut(upstream, SourceSlice(0, count)) or node
            case Skip(upstream, count):
                cut = _NOTHING if count < 0 else SourceSlice(count)
                return self._cut(upstream, cut) or node
            case Shard() if node.is_hint:
                raise DatasetError(HINTED)
            case Shard(upstream, shards, index):
                return self._shard(node, upstream, SourceSlice(index, None, shards))
            case Enumerate(upstream, start):
                return self._numbered(upstream, start) or node
            case _:
                return node.source()

    def _shard(self, node: Shard, upstream: Node, cut: SourceSlice) -> Node:
        if node.num_shards == 1:
            return upstream
        pattern = _unseeded(upstream)
        if pattern is not None:
            raise DatasetError(_UNSEEDED.format(pattern.label))
        found = self._cut(upstream, cut)
        if found is None:
            raise DatasetError(_REFUSED.format(self._obstacle(upstream, cut).label))
        return found

    def _obstacle(self, node: Node, cut: SourceSlice) -> Node:
        """Return the stage at or below *node* that stands between *cut* and an index."""
        for below in node.inputs:
            if self._cut(below, cut) is None:
                return self._obstacle(below, cut)
        return node

    def _numbered(self, upstream: Node, start: int) -> Node | None:
        """Return *upstream* beside the numbers of its elements, if it has an index."""
        kinds = Batch, Cache, Concatenate, PaddedBatch
        apart = any(isinstance(stage, kinds) for stage in topological_order(upstream))
        if apart or self._cut(upstream, _EVERYTHING) is None:
            return None  # these cannot be drawn in lockstep, or not in each pass
        size = upstream.cardinality
        stop = _LAST if size < 0 else min(start + size, _LAST)
        return Zip((Range(start, stop, 1), upstream))

    def _cut(self, node: Node, cut: SourceSlice) -> Node | None:
        """Return what makes of *node* the elements that *cut* leaves; None without an index."""
        key = id(node), cut
        if key not in self._done:
            self._alive.append(node)
            self._done[key] = self._made(node, cut)
        return self._done[key]

    def _made(self, node: Node, cut: SourceSlice) -> Node | None:
        match node:
            case Map() | Prefetch() | WithOptions() | Cache() | Snapshot():
                below = self._cut(node.upstream, cut)
                return below and replace(node, upstream=below)
            case AssertCardinality(upstream, expected):
                below = self._cut(upstream, cut)
                left = cut.of(range(max(expected, 0)))
                size = (left[-1] - left[0]) // left.step + 1 if left else 0
                return below and AssertCardinality(below, size if expected >= 0 else UNKNOWN)
            case Zip(upstreams):
                made = [below for each in upstreams if (below := self._cut(each, cut)) is not None]
                return Zip(tuple(made), node.like) if len(made) == len(upstreams) else None
            case Batch() | PaddedBatch() if cut.step == 1:
                size = node.size
                stop = None if cut.stop is None else cut.stop * size
                below = self._cut(node.upstream, SourceSlice(cut.start * size, stop))
                return below and replace(node, upstream=below)
            case Concatenate(upstream, other):
                return self._joined(upstream, other, cut)
            case _:
                return None if node.inputs else _part(node, cut)

    def _joined(self, first: Node, second: Node, cut: SourceSlice) -> Node | None:
        size = first.cardinality
        if size < 0:
            return None
        stop = None if cut.stop is None else max(0, cut.stop - size)
        start = max(0, cut.start - size) if cut.start >= size else (cut.start - size) % cut.step
        one, other = self._cut(first, cut), self._cut(second, SourceSlice(start, stop, cut.step))
        return Concatenate(one, other) if one is not None and other is not None else None


def _part(source: Node, cut: SourceSlice) -> Node | None:
    return source if cut == _EVERYTHING and source.part(cut) is not None else source.part(cut)


def _unseeded(node: Node) -> Node | None:
    """Return the source below *node* that lists files in an order that only its run knows."""
    for each in topological_order(node):
        pattern = None if each.inputs else each.units()
        if isinstance(pattern, FilePattern) and pattern.shuffle and pattern.seed is None:
            return each
    return None


_TOGETHER = (
    "leave shard out and give all readers the same job_name: they share the elements of the job, "
    "each once"
)

_REFUSED = (
    "shard: under dynamic sharding each task sees only the elements that it drew, so that shard "
    "must be left to the index of a source, and {0} before it prevents that: "
    + _TOGETHER
    + "; or put shard right behind a source with an index (range, from_tensor_slices, "
    "from_sequence, list_files with shuffle=False)"
)

_UNSEEDED = (
    "shard: {0} lists its files in another order in each run, so that shards would overlap and "
    "leave files out: give it shuffle=False or a seed; or " + _TOGETHER
)

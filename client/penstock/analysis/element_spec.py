"""Infers the spec of a dataset's elements: the nest, the dtypes, and which axes may differ.

One element is made, in this process and without workers. If no function runs, it is made of samples
in place of what sources hold: see `penstock.analysis.element_spec`. Which axes may be shorter or
longer in other elements is read off the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from penstock.analysis.array_spec import (
    ArraySpec,
    DatasetSpec,
    Spec,
    Specs,
    common_spec,
    row_of,
    rows_of,
    shrunk,
)
from penstock.analysis.registered import Registered, samples
from penstock.element import Element, NestedDataset, map_leaves, parts_of, rebuild, with_parts
from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, Node
from penstock.graph.run import open_root
from penstock.graph.traversal import rewritten, topological_order, walk
from penstock.ops.balance import BalancedRounds
from penstock.ops.batch import Batch
from penstock.ops.bucket_by_sequence_length import BucketBySequenceLength
from penstock.ops.cache import Cache
from penstock.ops.counter import Counter
from penstock.ops.enumerate import Enumerate
from penstock.ops.fixed_length_records import FixedLengthRecords
from penstock.ops.flat_map import FlatMap
from penstock.ops.group_by_window import GroupByWindow
from penstock.ops.interleave import Interleave
from penstock.ops.list_files import ListFiles
from penstock.ops.map import Map
from penstock.ops.mixed_streams import MixedStreams
from penstock.ops.mixture import Mixture
from penstock.ops.pack import Pack
from penstock.ops.padded_batch import PaddedBatch, parts
from penstock.ops.prefetch import Prefetch
from penstock.ops.ragged_batch import RaggedBatch
from penstock.ops.random import Random
from penstock.ops.range import Range
from penstock.ops.rebatch import Rebatch
from penstock.ops.repeat import Repeat
from penstock.ops.scan import Scan
from penstock.ops.selection import ChooseFromDatasets, SampleFromDatasets
from penstock.ops.shard import Shard
from penstock.ops.shuffle import Shuffle
from penstock.ops.slices import Slices
from penstock.ops.snapshot import Snapshot
from penstock.ops.take import Skip, Take
from penstock.ops.text_lines import TextLines
from penstock.ops.tfrecords import TFRecords
from penstock.ops.token_batches import TokenBatches
from penstock.ops.unbatch import Unbatch
from penstock.ops.window import Window
from penstock.ops.zip import Zip
from penstock.protocol.types import Mode
from penstock.ragged import Ragged


def element_spec(node: Node) -> Spec:
    """Return what the elements of *node* look like.

    Raises:
        DatasetError: when there is no element.
    """
    return specs_of(node).whole


def specs_of(node: Node) -> Specs:
    """Return that, and the same for tasks that divide the elements; raises as `element_spec`."""
    distributed = any(below.on_workers for _, below in walk(node))
    seen: dict[str, Node] = {}
    try:
        element = _first(sampled(rewritten(node, _local)), seen)
    except Exception as exc:
        if distributed:
            exc.add_note(
                "element_spec makes one element in this process, without workers: operators "
                "before distribute must be able to run here, too; and operators after "
                "from_dataset_id get elements of zeros"
            )
        raise
    spec = map_leaves(_spec_of, element)
    each = (_Shapes(seen, divided).widened(node, "", spec) for divided in (False, True))
    return Specs(*each)


def _first(node: Node, seen: dict[str, Node]) -> Element:
    """Make the first element; add each node that is opened to *seen*, by path."""
    context = replace(Context.local(seeds.fresh()), on_open=seen.setdefault)
    run = open_root(node, context)
    try:
        block = run.block(1)
    finally:
        run.close()
    if not block:
        raise DatasetError(
            "element_spec: the dataset has no elements, so their shapes and types are not known"
        )
    return block[0]


def _local(node: Node) -> Node:
    """Return what runs here for *node*: each hint of a shard keeps all elements."""
    if isinstance(node, Shard) and node.is_hint:
        return Shard(node.upstream, 1, 0)
    if isinstance(node, Pack):  # the first documents are enough
        return replace(node, buffer=1)
    if isinstance(node, BalancedRounds):
        return replace(node, window=node.num_consumers)
    if isinstance(node, Mixture):  # samples in place of its inputs have no index
        return SampleFromDatasets(node.upstreams, None, 0, stop=False, rerandomize=False)
    if isinstance(node, Snapshot):  # which writes the elements that it passes on
        return node.unkept
    return rewritten(node.on_workers[0], _local) if node.on_workers else node


def _spec_of(leaf: Any) -> ArraySpec | DatasetSpec:
    if isinstance(leaf, NestedDataset):
        below: Any = leaf
        return DatasetSpec(below.element_spec)
    return leaf_spec(leaf)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Finds the axes that may differ, from the last operator down to where they come from."""

    seen: dict[str, Node]
    """The nodes that were opened to make the element, by path: also the datasets inside."""
    divided: bool = False
    """Whether the number of elements says nothing: each task reads a part of them, or each inner
    dataset has a number of its own."""

    def widened(self, node: Node, path: str, spec: Spec) -> Spec:
        """Return *spec*, of an element of *node*, with None for each axis that may differ."""
        if node.on_workers:
            below, mode = node.on_workers
            return self._on_workers(mode).widened(below, path, spec)
        return self._WIDEN.get(type(node), _Shapes._passed_on)(self, node, path, spec)

    def _rows(self, node: Batch | PaddedBatch) -> int | None:
        """Return the length of all batches, None if some are shorter."""
        elements = node.upstream.cardinality
        whole = elements == INFINITE or (elements >= 0 and elements % node.size == 0)
        if node.drop_remainder or (whole and not (self.divided and elements != INFINITE)):
            return node.size
        return node.size if node.size == 1 else None

    def _batched(self, node: Batch, path: str, spec: Spec) -> Spec:
        return self._stacked(node.upstream, path, spec, self._rows(node))

    def _stacked(self, upstream: Node, path: str, spec: Spec, rows: int | None) -> Spec:
        below = self.widened(upstream, f"{path}.0", row_of(spec))
        return rows_of(spec, below, rows)

    def _padded(self, node: PaddedBatch, path: str, spec: Spec) -> Spec:  # noqa: ARG002
        return _padded_to(node.shapes, row_of(spec), self._rows(node))

    def _rebatched(self, node: Rebatch, path: str, spec: Spec) -> Spec:
        below = self.widened(node.upstream, f"{path}.0", spec)
        rows = node.size if node.drop_remainder else None
        return rows_of(below, row_of(below), rows)

    def _bucketed(self, node: BucketBySequenceLength, path: str, spec: Spec) -> Spec:
        sizes = set(node.sizes)
        rows = sizes.pop() if node.drop_remainder and len(sizes) == 1 else None
        if node.no_padding:
            return self._stacked(node.upstream, path, spec, rows)
        return _padded_to(node.shapes, row_of(spec), rows)

    def _packed(self, node: Pack | TokenBatches, path: str, spec: Spec) -> Spec:  # noqa: ARG002
        length = node.capacity if isinstance(node, Pack) and node.pad is not None else None

        def wide(leaf: ArraySpec) -> ArraySpec:  # other arrays have an entry for each document
            rows = length if leaf.shape[0] == length else None
            return replace(leaf, shape=(rows, *leaf.shape[1:]))

        whole = map_leaves(wide, spec)
        stops = replace(spec["cu_seqlens"], shape=(None if length is None else length + 1,))
        return {**whole, "cu_seqlens": stops}

    def _unbatched(self, node: Unbatch, path: str, spec: Spec) -> Spec:
        whole = map_leaves(lambda leaf: replace(leaf, shape=(None, *leaf.shape)), spec)
        return map_leaves(shrunk, self.widened(node.upstream, f"{path}.0", whole))

    def _windows(self, node: Window, path: str, spec: Spec) -> Spec:
        inner = map_leaves(lambda leaf: leaf.element, spec)
        return map_leaves(DatasetSpec, self.widened(node.upstream, f"{path}.0", inner))

    def _numbered(self, node: Enumerate, path: str, spec: Spec) -> Spec:
        return spec[0], self.widened(node.upstream, f"{path}.0", spec[1])

    def _registered(self, node: Registered, path: str, spec: Spec) -> Spec:  # noqa: ARG002
        specs = node.specs
        return spec if specs is None else specs.divided if self.divided else specs.whole

    def _side_by_side(self, node: Zip, path: str, spec: Spec) -> Spec:
        given = spec if node.like is None else _places(node.like, spec)
        wide = [
            self.widened(below, f"{path}.{i}", part)
            for i, (below, part) in enumerate(zip(node.upstreams, given, strict=True))
        ]
        return tuple(wide) if node.like is None else rebuild(node.like, wide)

    def _flattened(self, node: Node, path: str, spec: Spec) -> Spec:  # noqa: ARG002
        inner = self.seen.get(f"{path}/")
        if inner is None:
            return spec
        return replace(self, divided=True).widened(inner, f"{path}/", spec)

    def _chosen(self, node: ChooseFromDatasets, path: str, spec: Spec) -> Spec:
        for i, below in enumerate(node.upstreams):
            spec = self.widened(below, f"{path}.{i + 1}", spec)
        return spec

    def _mixed(self, node: Mixture | MixedStreams, path: str, spec: Spec) -> Spec:  # noqa: ARG002
        specs = [specs_of(below) for below in node.upstreams]
        each = [found.divided if self.divided else found.whole for found in specs]
        return common_spec(node.names, each)

    def _passed_on(self, node: Node, path: str, spec: Spec) -> Spec:
        for i, below in enumerate(node.inputs):
            spec = self.widened(below, f"{path}.{i}", spec)
        return spec

    def _made(self, node: Map | Scan, path: str, spec: Spec) -> Spec:
        """Widen what a function made: a first axis as long as a batch is taken for the batch's."""
        lengths = set(self._short(node.upstream, f"{path}.0"))

        def wide(leaf: ArraySpec | DatasetSpec) -> ArraySpec | DatasetSpec:
            if isinstance(leaf, ArraySpec) and leaf.shape and leaf.shape[0] in lengths:
                return replace(leaf, shape=(None, *leaf.shape[1:]))
            return leaf

        return map_leaves(wide, spec)

    def _short(self, node: Node, path: str) -> Iterable[int]:
        """Return how many rows batches have of which some are shorter."""
        if node.on_workers:
            below, mode = node.on_workers
            return self._on_workers(mode)._short(below, path)  # noqa: SLF001
        match node:
            case Batch() | PaddedBatch():
                elements = node.upstream.cardinality
                whole = min(node.size, elements) if elements > 0 else node.size
                return [whole] if self._rows(node) is None else []
            case Rebatch():
                return [] if node.drop_remainder else [node.size]
            case BucketBySequenceLength():
                return node.sizes
            case Pack() | TokenBatches() | Unbatch() | Window():
                return []
            case _:
                return self._short_below(node, path)

    def _short_below(self, node: Node, path: str) -> Iterator[int]:
        if isinstance(node, (FlatMap, Interleave, GroupByWindow)):
            inner = self.seen.get(f"{path}/")
            if inner is not None:
                yield from replace(self, divided=True)._short(inner, f"{path}/")  # noqa: SLF001
            return
        if isinstance(node, Registered):
            yield from node.lengths(self._registered(node, path, None))
        for i, below in enumerate(node.inputs):
            yield from self._short(below, f"{path}.{i}")

    def _on_workers(self, mode: Mode) -> _Shapes:
        return replace(self, divided=mode not in (Mode.OFF, Mode.DATA))

    _WIDEN: ClassVar[dict[type[Node], Callable[[_Shapes, Any, str, Spec], Spec]]] = {
        Batch: _batched,
        BucketBySequenceLength: _bucketed,
        ChooseFromDatasets: _chosen,
        Enumerate: _numbered,
        FlatMap: _flattened,
        GroupByWindow: _flattened,
        Interleave: _flattened,
        Map: _made,
        Pack: _packed,
        MixedStreams: _mixed,
        Mixture: _mixed,
        PaddedBatch: _padded,
        RaggedBatch: _batched,
        Rebatch: _rebatched,
        Registered: _registered,
        Scan: _made,
        TokenBatches: _packed,
        Unbatch: _unbatched,
        Window: _windows,
        Zip: _side_by_side,
    }
    """How operators change the shapes of elements, for those that do."""


def _padded_to(shapes: Any, spec: Spec, rows: int | None) -> Spec:
    if isinstance(spec, Ragged):
        return rows_of(spec, spec.values, rows)
    values = parts_of(spec)
    if values is not None:
        pairs = zip(parts("padded_shapes", shapes, spec), values, strict=True)
        return with_parts(spec, [_padded_to(*pair, rows) for pair in pairs])
    lengths = [None] * len(spec.shape) if shapes is None else shapes
    axes = (None if length in (None, -1) else length for length in lengths)
    return replace(spec, shape=(rows, *axes))


def _places(like: Any, spec: Spec) -> list[Spec]:
    """Return the parts of *spec* that stand where *like* has leaves."""
    if isinstance(like, tuple):
        return [place for pair in zip(like, spec, strict=True) for place in _places(*pair)]
    if isinstance(like, dict):
        return [place for key in like for place in _places(like[key], spec[key])]
    return [spec]


def source_spec(node: Node) -> Spec | None:
    """Return what the elements of *node* look like; None if only an element tells."""
    match node:
        case Range() | Counter() | Random():
            return ArraySpec((), np.dtype(np.int64))
        case Slices(tensors):
            return map_leaves(_row, tensors)
        case TextLines() | ListFiles():
            return ArraySpec((), str)
        case TFRecords() | FixedLengthRecords():
            return ArraySpec((), bytes)
        case _:
            return None


def sampled(root: Node) -> Node:
    """Return *root* with samples in place of each source whose elements are known.

    If a function of the user's would see the samples, *root* comes back unchanged.
    """
    if any(_calls(node) for node in topological_order(root)):
        return root
    return rewritten(root, _sampled)


def leaf_spec(leaf: Any) -> ArraySpec:
    """Return what an array, a NumPy scalar or text looks like."""
    if isinstance(leaf, (str, bytes)):
        return ArraySpec((), type(leaf))
    if leaf.dtype.hasobject:
        texts = leaf.ravel()
        return ArraySpec(leaf.shape, bytes if texts.size and type(texts[0]) is bytes else str)
    return ArraySpec(leaf.shape, leaf.dtype)


@dataclass(frozen=True, eq=False)
class _Samples(Node):
    """Elements that look as *spec* says and hold zeros; only `element_spec` opens it."""

    op: ClassVar[str] = "samples"
    spec: Spec

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        return samples(self.spec, state)


def _sampled(node: Node) -> Node:
    if isinstance(node, _PASSING):
        return node.inputs[0]
    spec = source_spec(node)
    return node if spec is None else _Samples(spec)


_PASSING = (Cache, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
"""Operators whose elements look like those of their input. A `take(0)` has none, and a `cache` must
not keep samples in its file."""


def _calls(node: Node) -> bool:
    """Return whether *node* holds a function or an object of the user's."""
    return any(
        each.metadata.get("kind") == "function" and getattr(node, each.name) is not None
        for each in fields(node)
    )


def _row(array: Any) -> ArraySpec:
    whole = leaf_spec(array)
    return replace(whole, shape=whole.shape[1:])

"""`global_shuffle`: all elements of an index in random order, without a buffer.

Position k of the order is a function of the seed, the size and k: `penstock.engine.draws`. So
under dynamic sharding, splits are ranges of positions, and all tasks have the same order.

State: that of `penstock.ops.internal.unit_cursor`, in positions, followed by the size, because
positions mean nothing in an order of another size. If files are shuffled, a digest of them follows.

Elements of files are read ahead, many at a time: in a window of the order, those of one row group
or of one file are read together. The window grows, so that the first element comes soon.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock import files
from penstock.engine.context import Context
from penstock.engine.draws import MOST, Permutation
from penstock.engine.iterator import ByNumber, Mark, OpIterator, State
from penstock.engine.rows import Block, joined
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.node import Node
from penstock.graph.traversal import check_extent, rewritten, topological_order
from penstock.ops.assert_cardinality import AssertCardinality
from penstock.ops.cache import Cache
from penstock.ops.internal.file_index import FileItems, indexed
from penstock.ops.internal.file_parts import FileSource
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.ops.list_files import ListFiles
from penstock.ops.map import Map
from penstock.ops.prefetch import Prefetch
from penstock.ops.sequence import Sequence
from penstock.ops.shard import Shard
from penstock.ops.take import Skip, Take
from penstock.ops.with_options import WithOptions
from penstock.protocol.malformed import glimpse
from penstock.protocol.types import SourceSlice

AHEAD = 4096
"""How many positions of the order are computed at once."""

FIRST_AHEAD = 64
"""How many elements of files are read ahead at first."""


@dataclass(frozen=True, eq=False)
class GlobalShuffle(Node):
    """The elements of *upstream*, which has an index of them, in random order."""

    op: ClassVar[str] = "global_shuffle"
    keeps_count: ClassVar[bool] = True
    upstream: Node
    seed: int | None
    reshuffle: bool

    def __post_init__(self) -> None:
        if self.seed is not None:
            if isinstance(self.seed, bool) or not hasattr(self.seed, "__index__"):
                raise DatasetError(
                    f"global_shuffle: seed must be an integer or None, not {self.seed!r}"
                )
            object.__setattr__(self, "seed", int(self.seed))
        check_extent(self.upstream)  # a worker builds it from its source on: nothing has, before
        self.fetch()
        if self.upstream.cardinality > MOST:
            raise DatasetError(
                f"global_shuffle: there can be {MOST} elements at the most, and "
                f"{self.upstream.label} has {self.upstream.cardinality}"
            )

    def fetch(self) -> ByNumber:
        """Return a function that makes elements by their numbers.

        Raises:
            DatasetError: when an operator has no index; it names the operator and the remedy.
        """
        found = self.upstream.by_number()
        if found is None:
            raise DatasetError(f"global_shuffle: {_refusal(self.upstream)}")
        return found

    @property
    def places(self) -> range:
        """The positions of the order that this source has."""
        return range(self.upstream.cardinality)

    def source(self) -> Node:
        """See `Node.source`."""
        return _Places(self.upstream, self.seed, self.reshuffle, self.places)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _GlobalShuffleIterator(self, context, state)


@dataclass(frozen=True, eq=False)
class _Places(GlobalShuffle):
    """Some positions of the order, as a source; the nodes below are not divided separately."""

    upstream: Node = field(metadata={"kind": "index"})
    left: range = range(0)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return len(self.left)

    @property
    def places(self) -> range:
        """See `GlobalShuffle.places`."""
        return self.left

    def units(self) -> int:
        """See `Node.units`."""
        return len(self.left)

    def part(self, cut: SourceSlice) -> Node:
        """See `Node.part`."""
        return replace(self, left=cut.of(self.left))


class _GlobalShuffleIterator(UnitsIterator):
    def __init__(self, node: GlobalShuffle, context: Context, state: State) -> None:
        place, self._size = None, node.upstream.cardinality
        shuffled = files_in(node.upstream)
        self._of_files = [files.digest(each.digest for each in shuffled)] if shuffled else []
        self._most_ahead = min((each.ahead for each in shuffled), default=0)
        self._ahead = min(FIRST_AHEAD, self._most_ahead)
        self._held: tuple[int, Block, TransformError | None] = (0, [], None)
        """The first position of the elements that were read ahead, these, and the error after."""
        if state is not None:
            if shuffled:
                *state, digest = state
                if digest != self._of_files[0]:
                    raise StateError(
                        f"global_shuffle: the files of {shuffled[0].label} have changed since the "
                        "state was saved: restore them, or begin again"
                    )
            *place, size = state
            if size != self._size:
                raise StateError(
                    f"global_shuffle: there were {glimpse(size)} elements when the state was "
                    f"taken, and now there are {self._size}, whose order is another one: give the "
                    "dataset the data that it had then"
                )
        self._places = node.places
        super().__init__(context, len(self._places), place)
        seed = context.seed(node.seed, every_pass=node.reshuffle)
        self._order = Permutation(seed, self._size)
        self._fetch = node.fetch()
        self._known: tuple[int, NDArray[np.int64]] = (0, np.empty(0, np.int64))
        """The first of the positions that were computed last, and the numbers at them."""

    def fetch(self, start: int, stop: int) -> tuple[Block, TransformError | None]:
        """See `UnitsIterator.fetch`."""
        if not self._most_ahead:
            return self._read(start, stop)
        begin, made, failed = self._held
        if not begin <= start <= begin + len(made):
            begin, made, failed = start, [], None
        if stop > begin + len(made) and failed is None:
            begin, made = start, made[start - begin :]
            first = start + len(made)
            last = max(stop, min(first + self._ahead, self.units.split.stop, len(self._places)))
            self._ahead = min(2 * self._ahead, self._most_ahead)
            more, failed = self._read(first, last)
            made = joined(made, more)
        self._held = begin, made, failed
        try:
            out = made[start - begin : stop - begin]
            return out, failed if len(out) < stop - start else None
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    def _read(self, start: int, stop: int) -> tuple[Block, TransformError | None]:
        """Return the elements at positions *start* to *stop* of the order."""
        first, numbers = self._known
        if not first <= start < stop <= first + len(numbers):
            end = min(start + max(AHEAD, stop - start), self.units.split.stop, len(self._places))
            first, numbers = start, self._order.at(_numbers(self._places[start:end]))
            self._known = first, numbers
        return self._fetch(numbers[start - first : stop - first])

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        below, rest = super().mark(), [self._size, *self._of_files]
        return lambda back: [*below(back), *rest]


def _numbers(places: range) -> NDArray[np.int64]:
    return np.arange(len(places), dtype=np.int64) * places.step + places.start


def globally_shuffled(node: Node, seed: int | None, reshuffle: bool) -> Node:
    """Return *node* with its elements in random order.

    The index is shuffled. The operators that make elements of it come after, and run as before.

    Raises:
        DatasetError: when an operator has no index; it names the operator and the remedy.
    """
    if isinstance(node, AssertCardinality):
        return replace(node, upstream=globally_shuffled(node.upstream, seed, reshuffle))
    index, makers = _apart(node)
    made: Node = GlobalShuffle(with_indexes(index), seed, reshuffle)
    for maker in reversed(makers):
        made = replace(maker, upstream=made)
    return made


def with_indexes(node: Node) -> Node:
    """Return *node* with an index of the elements of its files, if their format allows one.

    Raises:
        DatasetError: when a file cannot be read, or cannot have an index.
        MissingFile: when there is no such file.
    """
    return rewritten(node, _with_index)


def _with_index(node: Node) -> Node:
    return indexed(node) if isinstance(node, FileSource) and node.has_index else node


def files_in(node: Node) -> list[FileItems]:
    """Return the files among the sources of *node*."""
    sources = [each.sequence for each in topological_order(node) if isinstance(each, Sequence)]
    return [each for each in sources if isinstance(each, FileItems)]


_Maker: TypeAlias = Map | Prefetch | WithOptions


def _apart(node: Node) -> tuple[Node, list[_Maker]]:
    """Return the node with the index of *node*, and its operators on elements, last first."""
    match node:
        case Map() | Prefetch() | WithOptions():
            index, makers = _apart(node.upstream)
            return index, [node, *makers]
        case Take() | Skip() | Shard():
            index, makers = _apart(node.upstream)
            return (replace(node, upstream=index) if makers else node), makers
        case _:
            return node, []


def _refusal(node: Node, join: str = "") -> str:
    """Return why *node* has no index, and the remedy; *join* names an operator with more inputs."""
    for below in node.inputs:
        if below.by_number() is None:
            return _refusal(below, node.op if len(node.inputs) > 1 else join)
    match node:
        case ListFiles():
            return f"{node.label} comes in random order by itself: leave its shuffle at True"
        case Cache():
            return (
                f"{node.label} has no index, and after global_shuffle it would keep the order of "
                "the first pass: leave it out, or use shuffle(buffer_size) after it"
            )
        case _ if not node.inputs and not node.on_workers:
            return (
                f"{node.label} has no index, so that its elements cannot be had in any order: use "
                "shuffle(buffer_size); or begin with a source that has one (range, "
                "from_tensor_slices, from_sequence) and read in map"
            )
    where = f"{join} the sources first, put global_shuffle after that and {node.label} after it"
    if not join:
        where = f"put global_shuffle before {node.label}, right after the source"
    return (
        f"{node.label} stands between it and the index of a source: {where}; or use "
        "shuffle(buffer_size)"
    )

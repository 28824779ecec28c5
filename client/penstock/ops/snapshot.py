"""`snapshot`: the elements of the input, written while the first pass reads them, and read later.

Below its path, each pipeline has a folder of its own, named by its key; see
`penstock.ops.internal.snapshot_key`. If tasks draw splits, each run of *cell* units has a folder
below that one, so that each task can use what any task has made.

State: that of `penstock.ops.internal.kept_stream`. If tasks draw splits, that of
`penstock.ops.internal.unit_cursor` comes before it: where the run of units begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.engine.splits import SplitReader
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.ops.internal.chance import drawn_by
from penstock.ops.internal.kept_stream import Kept, KeptStream
from penstock.ops.internal.snapshot_key import announce, key_of, part_key
from penstock.ops.internal.unit_cursor import Units
from penstock.ops.with_options import with_options
from penstock.options import Options
from penstock.protocol.definition import PipelineOutline
from penstock.protocol.splits import Split
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SaveOptions


@dataclass(frozen=True, eq=False)
class Snapshot(Node):
    """The elements of *upstream*, kept below *path*."""

    op: ClassVar[str] = "snapshot"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    path: str
    compression: str | None
    chunk_bytes: int
    cell: int = field(default=0, compare=False)
    """How many units of the source are kept together where tasks draw splits."""

    @property
    def unkept(self) -> Node:
        """The same elements, of which nothing is read or written."""
        return with_options(self.upstream, Options())

    @property
    def save_options(self) -> SaveOptions:
        """How elements are written."""
        return SaveOptions("arrow", self.compression, self.chunk_bytes)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        if context.splits is not None:
            return _SplitsIterator(self, context, context.splits, state)
        outline = key_of(self.upstream, by_splits=False)
        steady = _steady(context)

        def opened(below: State) -> OpIterator:
            return steady.open(self.upstream, below)

        folder = announce(self.path, outline)
        return KeptStream(Kept(folder, outline, self.save_options, opened, False), state)


def _steady(context: Context) -> Context:
    """Return a context in which element k is the same in all passes, tasks and runs."""

    def check(path: str, node: Any) -> None:
        if context.on_open is not None:
            context.on_open(path, node)
        if why := drawn_by(node):  # in a dataset that a function returned
            raise DatasetError(f"snapshot: {why}")

    return replace(context, base_seed=0, common_seed=None, pass_key=0, passes=(), on_open=check)


class _SplitsIterator(RowsIterator):
    """Reads or makes run after run of *cell* units."""

    def __init__(self, node: Snapshot, context: Context, splits: SplitReader, state: State) -> None:
        self._node, self._splits = node, splits
        below = f"{context.path}."
        sources = {p: n for p, n in context.providers.items() if p.startswith(below)}
        (provider,) = set(sources.values())
        self._numbered = len(sources) > 1  # numbers may be among them
        self._context = context
        *place, number, errors = state or (0, 0)
        at_units = replace(context, providers={context.path: provider})
        self._units = Units(at_units, None, place or None)
        self._inside = [number, errors]
        """Where to begin in the next run."""
        outline = key_of(node.upstream, by_splits=True)
        self._outline = PipelineOutline(outline.fingerprint, ())  # of each of many folders
        self._folder = announce(node.path, outline)
        self._units_taken = range(0)
        self._stream: KeptStream | None = None

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`. Never crosses the end of a run of units."""
        while self._stream is not None or self._next():
            block = self._stream.rows(n) if self._stream else []
            if len(block):
                return block
            self._leave()
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`. In a run of units, the position among the units is before it."""
        units, stream = self._units.mark(), self._stream
        if stream is None:
            inside = self._inside
            return lambda _: [*units(0), *inside]
        place, taken = stream.mark(), len(self._units_taken)
        return lambda back: [*units(taken), *place(back)]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._leave()

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _next(self) -> bool:
        """Open the next run of units; return False at the end of the pass."""
        cell = self._node.cell
        start, stop = self._units.take(cell)
        end = start - start % cell + cell
        if stop > end:  # the split does not begin where a run does
            self._units.put_back(stop - end)
            stop = end
        if start == stop:
            return False
        self._units_taken = range(start, stop)
        split = Split(start, stop, self._units.names(start, stop))
        key = part_key(self._units_taken, split.names, numbered=self._numbered)
        folder = folder_of("snapshot", self._folder.file(key))
        inside, self._inside = self._inside, [0, 0]

        def opened(below: State) -> OpIterator:
            splits = SplitReader(lambda _, place: Split(0, 0) if place else split)
            inner = replace(_steady(self._context), splits=splits, shared={})
            return inner.open(self._node.upstream, below)

        kept = Kept(folder, self._outline, self._node.save_options, opened, is_split=True)
        self._stream = KeptStream(kept, inside)
        return True

"""`list_files`: names of files.

State: that of `penstock.ops.internal.unit_cursor`. If all files are read, a digest of their names
follows, because numbers mean nothing in another listing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from penstock import files
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import StateError
from penstock.graph.node import Node
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.options import check_count
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import SourceSlice


@dataclass(frozen=True, eq=False)
class ListFiles(Node):
    """The names of the files that match *patterns*."""

    op: ClassVar[str] = "list_files"
    one_to_one: ClassVar[bool] = True
    patterns: tuple[str, ...]
    shuffle: bool
    seed: int | None

    def __post_init__(self) -> None:
        names = files.names("list_files", "file_pattern", self.patterns, patterns=True)
        object.__setattr__(self, "patterns", names)
        if self.seed is not None:
            seed = check_count("list_files", "seed", self.seed, least=-(2**63), most=None)
            object.__setattr__(self, "seed", seed)

    def units(self) -> FilePattern:
        """See `Node.units`."""
        return FilePattern(self.patterns, self.shuffle, self.seed)

    def part(self, cut: SourceSlice) -> ListFiles:
        """See `Node.part`."""
        pattern = self.units()
        return _ListFilesPart(self.patterns, self.shuffle, self.seed, (*pattern.cuts, cut))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        if context.draws_splits:
            return _NamesIterator(context, None, state)
        names = files.listing("list_files", self.units())
        digest = files.digest(names)
        if self.shuffle:
            names = files.shuffled(names, context.seed(self.seed))
        names = self.units().cut(names)
        if state is None:
            return _ListingIterator(context, names, digest, None)
        *place, before = state
        if before != digest:
            raise StateError(
                f"list_files: the files of {', '.join(map(repr, self.patterns))} are not those of "
                "the saved state: some have come or gone since"
            )
        return _ListingIterator(context, names, digest, place)


@dataclass(frozen=True, eq=False)
class _ListFilesPart(ListFiles):
    """Some of the names of files."""

    cuts: tuple[SourceSlice, ...] = ()

    def units(self) -> FilePattern:
        """See `Node.units`."""
        return replace(super().units(), cuts=self.cuts)


class _NamesIterator(UnitsIterator):
    def fetch(self, start: int, stop: int) -> tuple[list[Element], None]:
        """See `UnitsIterator.fetch`."""
        return list(self.units.names(start, stop)), None


class _ListingIterator(_NamesIterator):
    def __init__(self, context: Context, names: tuple[str, ...], digest: str, state: State) -> None:
        super().__init__(context, len(names), state, names)
        self._digest = digest

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        below, digest = super().mark(), self._digest
        return lambda back: [*below(back), digest]

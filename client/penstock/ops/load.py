"""`load`: the elements of a saved dataset.

State: see `penstock.ops.internal.file_parts`; a place is a group of a chunk and a row in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.rows import Block
from penstock.errors import MissingFile
from penstock.file_parts import FilePart
from penstock.graph.node import ADDED, UNKNOWN
from penstock.graph.traversal import DatasetBase
from penstock.ops.internal.arrow_blocks import by_group
from penstock.ops.internal.file_parts import (
    START,
    KeptGroups,
    NamedFiles,
    PartReader,
    Place,
)
from penstock.ops.internal.made_again import chunk_made_again
from penstock.saved.chunk_reader import ChunkFile, check_same, version_of
from penstock.saved.chunks import ChunkContents
from penstock.saved.manifest import SavedVersion


@dataclass(frozen=True, eq=False)
class Load(NamedFiles):
    """The elements of *version* of the saved dataset at *path*; *files* are its chunks.

    *repair* is the dataset that was saved: it makes damaged chunks again.
    """

    op: ClassVar[str] = "load"
    path: str
    version: int
    save_id: str
    repair: DatasetBase | None = field(
        default=None, kw_only=True, metadata={"kind": "function"} | ADDED
    )

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return UNKNOWN if self.cuts else self._version.manifest.elements

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def count(self, part: FilePart) -> int:
        """See `FileSource.count`. The manifest tells it."""
        return self._contents(part).count

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`. Reads the manifest only."""
        groups = self._contents(part).groups
        sizes = [(number, group.count) for number, group in enumerate(groups)]
        return np.array(sizes, np.int64).reshape(-1, 2)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        try:
            return super().open(context, state)
        except MissingFile:
            check_same(self.path, self.save_id)
            raise

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        contents, remake = self._contents(part), None
        if self.repair is not None:
            remake = partial(chunk_made_again, self.repair.node, self._version, number_of(part))
        try:
            file = ChunkFile(part, contents, self._version, remake)
            return ChunkReader(file, part, contents, place)
        except FileNotFoundError:
            check_same(self.path, self.save_id)
            raise

    def _contents(self, part: FilePart) -> ChunkContents:
        name = part.name.rpartition("/")[2]
        if "-" in name:
            return self._version.chunks[number_of(part)]
        pieces = self._version.manifest.pieces
        return next(one.contents for one in pieces if one.name.endswith(f"/{name}"))

    @property
    def _version(self) -> SavedVersion:
        return version_of(self.path, self.version, self.save_id)


def number_of(part: FilePart) -> int:
    """Return the number of the chunk whose file *part* is of."""
    return int(part.name.rpartition("/")[2].partition("-")[0])


class ChunkReader(PartReader):
    """Reads the elements of those groups of a chunk that begin in a part of its file."""

    def __init__(
        self, file: ChunkFile, part: FilePart, contents: ChunkContents, place: Place
    ) -> None:
        self._file, self._name = file, part.name
        self._groups = [
            number
            for number, group in enumerate(contents.groups)
            if group.count
            and (
                part.stop is None
                or part.start <= group.start < part.stop
                or part.stop == part.size <= group.start  # the file is shorter than it was
            )
        ]
        self._group, self._row = place
        if place == START and self._groups:
            self._group = self._groups[0]
        self._left: Block | None = None
        """The rows from `_row` on of the group; None: it was not read."""

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        while self._groups and self._group <= self._groups[-1]:
            if self._left is None:
                self._left = self._file.block(self._group)[self._row :]
            if len(self._left):
                block, self._left = self._left[:n], self._left[n:]
                self._row += len(block)
                return block
            self._group, self._row, self._left = self._group + 1, 0, None
        return []

    def pick(self, places: Sequence[Place], kept: KeptGroups) -> Iterator[Block | Exception]:
        """See `PartReader.pick`."""
        for number, rows in by_group(places):
            self._group, self._row = number, rows[0]
            try:
                table = kept.get((self._name, number), partial(self._file.table, number))
                yield self._file.picked(table, rows)
            except ValueError as exc:
                yield from [exc] * len(rows)

    def is_before(self, following: FilePart) -> bool:  # noqa: ARG002  files are read to their end
        """See `PartReader.is_before`."""
        return True

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        group, row = self._group, self._row
        return lambda back: (group, row - back)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"row {self._row} of group {self._group}"

    def close(self) -> None:
        """See `PartReader.close`."""
        self._left = None
        self._file.close()

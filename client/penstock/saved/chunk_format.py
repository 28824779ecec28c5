"""The formats of chunks: a file of groups of elements, each of which is read by itself.

A format encodes a group of columns, and decodes the bytes of a group. Which elements make a group
depends on the elements alone, so the same elements make the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.rows import Block, elements_of
from penstock.extras import needed
from penstock.frames.nest import Column
from penstock.saved.chunks import GROUP_BYTES, GROUP_COUNT, ChunkContents, Group, checksum
from penstock.saved.layout import SavedLayout


class GroupEncoder(Protocol):
    """Makes the bytes of one file."""

    def add(self, columns: list[Column]) -> None:
        """Add a group of elements that have these *columns*.

        Raises:
            DatasetError: when the format cannot hold a value, naming its column.
        """
        ...

    def finish(self) -> tuple[Any, list[int]]:
        """Return the bytes of the file, as a buffer of pyarrow, and where its groups are.

        The numbers say where each group begins and the last one ends. One number more says where a
        group without elements ends, which `ChunkFormat.decoder` gets.
        """
        ...


class GroupDecoder(Protocol):
    """Reads the groups of one file."""

    def table(self, data: Any, group: Group) -> Any:
        """Return the rows of *group*, whose bytes are *data*; it has `nbytes`.

        Raises:
            ValueError: when the bytes are malformed.
        """
        ...

    def block(self, table: Any) -> Block:
        """Return all elements of a table."""
        ...

    def picked(self, table: Any, rows: Sequence[int]) -> Block:
        """Return the elements that are *rows* of a table."""
        ...


class ChunkFormat(ABC):
    """A format of chunks."""

    name: ClassVar[str]
    """As users call it."""
    suffix: ClassVar[str]
    """The end of the names of its files."""
    compressions: ClassVar[tuple[str | None, ...]]
    """The compressions that it has; the first one is the default."""
    index_name: ClassVar[str] = ""
    """A file beside the chunks that other readers need; empty: there is none."""
    offered: ClassVar[bool] = True
    """Whether `save` takes it by its name."""

    @abstractmethod
    def check(self, layout: SavedLayout) -> None:
        """Check that the format can hold elements of this *layout*.

        Raises:
            DatasetError: naming the part of an element that it cannot hold.
        """

    @abstractmethod
    def encoder(self, layout: SavedLayout, compression: str | None) -> GroupEncoder:
        """Return what makes one file."""

    @abstractmethod
    def decoder(self, layout: SavedLayout, about: Any) -> GroupDecoder:
        """Return what reads one file; *about* has the bytes of the group without elements."""

    def index_file(
        self,
        layout: SavedLayout,  # noqa: ARG002  most need no such file
        chunks: Iterable[tuple[str, ChunkContents]],  # noqa: ARG002
    ) -> bytes:
        """Return what the file `index_name` has beside complete *chunks*, each with its name."""
        return b""


class ChunkWriter:
    """Makes the bytes of one chunk."""

    def __init__(
        self, chunk_format: ChunkFormat, layout: SavedLayout, compression: str | None
    ) -> None:
        self._layout = layout
        self._encoder = chunk_format.encoder(layout, compression)
        self._columns: list[list[Any]] = [[] for _ in layout.kinds]
        self._waiting = 0
        """Bytes of the elements in `_columns`."""
        self._counts: list[int] = []
        """How many elements each group has."""
        self.nbytes = 0
        """About how many bytes the elements take that were added."""
        self.sizes: list[NDArray[np.int64]] = []
        """What `nbytes` was after each element; in several arrays."""

    def add(self, elements: Sequence[Element], limit: int) -> int:
        """Add the first of *elements*, until the chunk has *limit* bytes; return how many were."""
        columns = self._layout.columns(elements)
        ends = np.cumsum(self._layout.sizes(columns, len(elements)))
        most = self._until(ends, limit - self.nbytes)
        at = 0
        while at < most:
            at = self._fill(columns, ends, at, most)
        self.sizes.append(ends[:most] + self.nbytes)
        self.nbytes += int(ends[most - 1])
        return most

    def _fill(self, columns: list[Column], ends: Any, at: int, most: int) -> int:
        """Add elements from number *at* on, until a group is full; return how many are added."""
        before = int(ends[at - 1]) if at else 0
        room = GROUP_COUNT - len(self._columns[0])
        stop = min(most, at + room, self._until(ends, before + GROUP_BYTES - self._waiting))
        for have, column in zip(self._columns, columns, strict=True):
            have.extend(column[at:stop])
        self._waiting += int(ends[stop - 1]) - before
        if self._waiting >= GROUP_BYTES or len(self._columns[0]) == GROUP_COUNT:
            self._end_group()
        return stop

    @staticmethod
    def _until(ends: Any, room: int) -> int:
        """Return how many elements there are up to the one with which *room* is filled."""
        return min(int(np.searchsorted(ends, room)) + 1, len(ends))

    def _end_group(self) -> None:
        self._encoder.add(list(self._columns))
        self._counts.append(len(self._columns[0]))
        self._columns = [[] for _ in self._columns]
        self._waiting = 0

    def finish(self) -> tuple[Any, ChunkContents]:
        """Return the bytes of the file, as a buffer of pyarrow, and what it has."""
        if self._columns[0]:
            self._end_group()
        data, bounds = self._encoder.finish()
        counts = [*self._counts, 0][: len(bounds) - 1]
        groups = tuple(
            Group(count, start, stop - start, checksum(data[start:stop]))
            for count, (start, stop) in zip(counts, pairwise(bounds), strict=True)
        )
        return data, ChunkContents(sum(counts), data.size, checksum(data), groups)


def rows_of(
    chunk_format: ChunkFormat,
    layout: SavedLayout,
    contents: ChunkContents,
    data: bytes,
    rows: range,
) -> list[Element]:
    """Return the elements *rows* of the file that has the bytes *data*.

    Raises:
        ValueError: when the file is malformed.
    """
    buffer = needed("pyarrow", "save").py_buffer(data)
    pieces = [buffer[group.start : group.start + group.nbytes] for group in contents.groups]
    decoder = chunk_format.decoder(layout, pieces[-1])
    found: list[Element] = []
    before = 0
    for group, piece in zip(contents.groups, pieces, strict=True):
        its = range(max(rows.start - before, 0), min(rows.stop - before, group.count))
        if its:
            found += elements_of(decoder.picked(decoder.table(piece, group), its))
        before += group.count
    return found

"""Chunks as Arrow IPC files, which are also Feather files of version 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.element import Element
from penstock.engine.rows import elements_of
from penstock.extras import needed
from penstock.frames.nest import Column
from penstock.saved import arrow_columns
from penstock.saved.chunks import GROUP_BYTES, GROUP_COUNT, ChunkContents, Group, checksum
from penstock.saved.layout import SavedLayout

_LAYOUT = b"penstock_layout"
"""The key of a file's metadata under which the layout is."""


class ArrowWriter:
    """An Arrow IPC file, which is also a Feather file of version 2."""

    def __init__(self, layout: SavedLayout, compression: str | None) -> None:
        pa = needed("pyarrow", "saving in the format 'arrow'")
        self._layout = layout
        self._schema = arrow_columns.schema(layout, {_LAYOUT: layout.to_text().encode()})
        self._sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer = pa.ipc.new_file(self._sink, self._schema, options=options)
        self._at = 0
        self._columns: list[list[Any]] = [[] for _ in layout.kinds]
        self._waiting = 0
        """Bytes of the elements in `_columns`."""
        self._counts: list[tuple[int, int, int]] = []
        """Of each group: how many elements, and where its bytes start and end."""
        self.nbytes = 0

    def add(self, elements: Sequence[Element], limit: int) -> int:
        """See `ChunkWriter.add`."""
        columns = self._layout.columns(elements)
        ends = np.cumsum(self._layout.sizes(columns, len(elements)))
        most = self._until(ends, limit - self.nbytes)
        at = 0
        while at < most:
            at = self._fill(columns, ends, at, most)
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
            self._write()
        return stop

    @staticmethod
    def _until(ends: Any, room: int) -> int:
        """Return how many elements there are up to the one with which *room* is filled."""
        return min(int(np.searchsorted(ends, room)) + 1, len(ends))

    def _write(self) -> None:
        count = len(self._columns[0])
        rows = arrow_columns.table(self._layout, self._schema, list(self._columns))
        self._writer.write_batch(rows)
        start, self._at = self._at, self._sink.tell()
        self._counts.append((count, start, self._at))
        self._columns = [[] for _ in self._columns]
        self._waiting = 0

    def finish(self) -> tuple[Any, ChunkContents]:
        """See `ChunkWriter.finish`."""
        if self._columns[0]:
            self._write()
        self._writer.close()
        data = self._sink.getvalue()
        first = _after_schema(data)  # which the library writes with the first group
        starts = (max(start, first) for _, start, _ in self._counts)
        groups = tuple(
            Group(count, start, stop - start, checksum(data[start:stop]))
            for start, (count, _, stop) in zip(starts, self._counts, strict=True)
        )
        count = sum(group.count for group in groups)
        return data, ChunkContents(count, data.size, checksum(data), groups)


def _after_schema(data: Any) -> int:
    """Return where the first message behind the schema begins in the file with these bytes.

    The file begins with a magic of 8 bytes. A message is a mark, the length of what describes it,
    that, and its body; a schema has no body.
    """
    (length,) = struct.unpack("<i", data[12:16].to_pybytes())
    return 16 + int(length)


def layout_of(schema: Any) -> SavedLayout:
    """Return the layout that a file's *schema* tells.

    Raises:
        ValueError: when it tells none.
    """
    found = (schema.metadata or {}).get(_LAYOUT)
    if found is None:
        raise ValueError("the file was not written by Penstock")
    return SavedLayout.from_text(found.decode())


def elements(data: bytes, start: int, stop: int) -> tuple[SavedLayout, list[Element]]:
    """Return the layout of the file that has the bytes *data*, and its elements *start* to *stop*.

    Raises:
        ValueError: when the file is malformed, or has fewer elements.
    """
    pa = needed("pyarrow", "reading a saved dataset of the format 'arrow'")
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        layout = layout_of(reader.schema)
        found: list[Element] = []
        for i in range(reader.num_record_batches):
            found += elements_of(arrow_columns.block(layout, reader.get_batch(i)))
    if len(found) < stop:
        raise ValueError(f"it has {len(found)} elements instead of at least {stop}")
    return layout, found[start:stop]

"""Chunks as Arrow IPC files, which are also Feather files of version 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.engine.rows import Block, elements_of
from penstock.extras import needed
from penstock.frames.nest import Column
from penstock.saved import arrow_columns
from penstock.saved.chunk_format import ChunkFormat, GroupDecoder, GroupEncoder
from penstock.saved.chunks import Group
from penstock.saved.layout import SavedLayout

_LARGE = 1 << 12
"""Rows with more bytes than this, on average, are picked one by one, which copies nothing."""


class ArrowFormat(ChunkFormat):
    """Arrow IPC. It holds all elements; a group is a record batch."""

    name, suffix, compressions = "arrow", "arrow", ("zstd", "lz4", None)

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""

    def encoder(self, layout: SavedLayout, compression: str | None) -> GroupEncoder:
        """See `ChunkFormat.encoder`."""
        return _ArrowEncoder(layout, compression)

    def decoder(self, layout: SavedLayout, about: Any) -> GroupDecoder:  # noqa: ARG002  it needs none
        """See `ChunkFormat.decoder`."""
        return _ArrowDecoder(layout)


class _ArrowEncoder:
    def __init__(self, layout: SavedLayout, compression: str | None) -> None:
        pa = needed("pyarrow", "saving in the format 'arrow'")
        self._layout = layout
        self._schema = arrow_columns.schema(layout)
        self._sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer = pa.ipc.new_file(self._sink, self._schema, options=options)
        self._bounds = [0]

    def add(self, columns: list[Column]) -> None:
        """See `GroupEncoder.add`."""
        self._writer.write_batch(arrow_columns.table(self._layout, self._schema, columns))
        self._bounds.append(self._sink.tell())

    def finish(self) -> tuple[Any, list[int]]:
        """See `GroupEncoder.finish`."""
        self._writer.close()
        data = self._sink.getvalue()
        # The library writes the schema with the first group.
        return data, [_after_schema(data), *self._bounds[1:]]


class _ArrowDecoder:
    def __init__(self, layout: SavedLayout) -> None:
        self._ipc = needed("pyarrow", "Dataset.load").ipc
        self._layout, self._schema = layout, arrow_columns.schema(layout)

    def table(self, data: Any, group: Group) -> Any:  # noqa: ARG002  the bytes tell
        """See `GroupDecoder.table`."""
        return self._ipc.read_record_batch(self._ipc.read_message(data), self._schema)

    def block(self, table: Any) -> Block:
        """See `GroupDecoder.block`."""
        return arrow_columns.block(self._layout, table)

    def picked(self, table: Any, rows: Sequence[int]) -> Block:
        """See `GroupDecoder.picked`."""
        return picked(self._layout, table, rows)


def picked(layout: SavedLayout, table: Any, rows: Sequence[int]) -> Block:
    """Return the elements that are *rows* of a record batch."""
    if table.nbytes <= _LARGE * table.num_rows:
        return arrow_columns.block(layout, table, np.array(rows, np.int64))
    pieces = [table.slice(row, 1) for row in rows]
    return [
        element for piece in pieces for element in elements_of(arrow_columns.block(layout, piece))
    ]


def _after_schema(data: Any) -> int:
    """Return where the first message behind the schema begins in the file with these bytes.

    The file begins with a magic of 8 bytes. A message is a mark, the length of what describes it,
    that, and its body; a schema has no body.
    """
    (length,) = struct.unpack("<i", data[12:16].to_pybytes())
    return 16 + int(length)

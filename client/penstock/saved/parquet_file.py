"""Chunks as Parquet files. A group is a row group, and each page has a checksum, too."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.frames.nest import Column
from penstock.saved import arrow_columns
from penstock.saved.arrow_file import picked
from penstock.saved.chunk_format import ChunkFormat, GroupDecoder, GroupEncoder
from penstock.saved.chunks import Group
from penstock.saved.layout import SavedLayout

_MAGIC = 4
"""Bytes before the first row group."""

_INTEGER = 4
"""Bytes of Parquet's smallest integer."""


class ParquetFormat(ChunkFormat):
    """Parquet, with Arrow's types."""

    name, suffix, compressions = "parquet", "parquet", ("zstd", "lz4", None)

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            dtype: Any = getattr(kind, "dtype", np.dtype(object))
            if dtype.kind == "M" and np.datetime_data(dtype) == ("s", 1):
                raise DatasetError(
                    f"save: the format 'parquet' cannot hold {name!r}, which is {dtype}: Parquet "
                    "has no seconds; map it to datetime64[ms]"
                )

    def encoder(self, layout: SavedLayout, compression: str | None) -> GroupEncoder:
        """See `ChunkFormat.encoder`."""
        return _ParquetEncoder(layout, compression)

    def decoder(self, layout: SavedLayout, about: Any) -> GroupDecoder:
        """See `ChunkFormat.decoder`."""
        return _ParquetDecoder(layout, about)


class _ParquetEncoder:
    def __init__(self, layout: SavedLayout, compression: str | None) -> None:
        pa = needed("pyarrow", "saving in the format 'parquet'")
        import pyarrow.parquet as pq  # noqa: PLC0415  an extra

        self._pa, self._layout = pa, layout
        self._schema = arrow_columns.schema(layout)
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=compression or "none",
            write_page_checksum=True,
            use_dictionary=list(_short(layout)),
        )
        self._bounds = [_MAGIC]

    def add(self, columns: list[Column]) -> None:
        """See `GroupEncoder.add`."""
        rows = arrow_columns.table(self._layout, self._schema, columns)
        self._writer.write_table(self._pa.Table.from_batches([rows]), rows.num_rows)
        self._bounds.append(self._sink.tell())

    def finish(self) -> tuple[Any, list[int]]:
        """See `GroupEncoder.finish`. The footer is the group without elements."""
        self._writer.close()
        data = self._sink.getvalue()
        return data, [*self._bounds, data.size]


def _short(layout: SavedLayout) -> Iterator[str]:
    """Yield the paths of columns of short integers: without a dictionary, each takes 4 bytes."""
    for name, kind in zip(layout.names, layout.kinds, strict=True):
        dtype = getattr(kind, "dtype", None)
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize < _INTEGER:
            ndim = getattr(kind, "ndim", 0)
            yield name + (f"{'.data' if ndim > 1 else ''}.list.element" if ndim else "")


class _ParquetDecoder:
    def __init__(self, layout: SavedLayout, footer: Any) -> None:
        self._pa = needed("pyarrow", "Dataset.load")
        import pyarrow.parquet as pq  # noqa: PLC0415  an extra

        self._open, self._layout = pq.ParquetFile, layout
        whole = self._pa.py_buffer(b"PAR1" + memoryview(footer))
        self._metadata = pq.read_metadata(self._pa.BufferReader(whole))
        count = self._metadata.num_row_groups
        self._numbers = {_start(self._metadata.row_group(i)): i for i in range(count)}

    def table(self, data: Any, group: Group) -> Any:
        """See `GroupDecoder.table`."""
        window = self._pa.PythonFile(_Window(data, group.start), mode="r")
        with self._open(window, metadata=self._metadata) as file:
            table = file.read_row_group(self._numbers[group.start], use_threads=False)
        return table.combine_chunks().to_batches()[0]

    def block(self, table: Any) -> Block:
        """See `GroupDecoder.block`."""
        return arrow_columns.block(self._layout, table)

    def picked(self, table: Any, rows: Sequence[int]) -> Block:
        """See `GroupDecoder.picked`."""
        return picked(self._layout, table, rows)


def _start(row_group: Any) -> int:
    """Return where the bytes of a row group begin."""
    first = row_group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


class _Window(io.RawIOBase):
    """A file of which *data* is there, from byte *start* on."""

    def __init__(self, data: Any, start: int) -> None:
        self._data, self._start, self._at = data, start, 0

    def readable(self) -> bool:
        """See `io.IOBase.readable`."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.IOBase.seek`. The file is taken to end with the data."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._start + self._data.size}
        self._at = base[whence] + offset
        return self._at

    def tell(self) -> int:
        """See `io.IOBase.tell`."""
        return self._at

    def read(self, size: int = -1) -> Any:
        """See `io.RawIOBase.read`."""
        begin = self._at - self._start
        if not 0 <= begin <= begin + size <= self._data.size:
            raise OSError(f"{size} bytes at {self._at} are in another row group")
        self._at += size
        return self._data.slice(begin, size)

"""Chunks as shards of Mosaic's MDS, version 2.

https://github.com/mosaicml/streaming has the format.

A shard is the number of samples, where each begins and the last one ends, a header as JSON, and the
samples: the sizes of the columns whose size varies, then the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.frames.columns import Alike, Scalars, Text, TextArrays
from penstock.frames.nest import Column
from penstock.saved.chunks import ChunkContents
from penstock.saved.layout import SavedLayout
from penstock.saved.row_format import RowCodec, RowFormat, text_bytes

_U32 = np.dtype("<u4")
_NUMBERS = (
    "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64",
    "float64",
)  # fmt: skip
_MOST = int(np.iinfo(_U32).max)
"""The most bytes of a shard."""
_AXES = [np.dtype(f"<u{size}") for size in (1, 2, 4, 8)]
"""The dtypes that a shape may have."""


class MdsFormat(RowFormat):
    """Shards of MDS."""

    name, suffix, index_name = "mds", "mds", "index.json"
    cure = "numbers of up to 64 bits, text or bytes"

    def holds(self, kind: Alike) -> bool:
        """See `RowFormat.holds`."""
        if isinstance(kind, TextArrays):
            return False
        return isinstance(kind, Text) or kind.dtype.name in (*_NUMBERS, "bool")

    def codec(self, layout: SavedLayout) -> RowCodec:
        """See `RowFormat.codec`."""
        return _ShardCodec(layout)

    def index_file(self, layout: SavedLayout, chunks: Iterable[tuple[str, ChunkContents]]) -> bytes:
        """See `ChunkFormat.index_file`."""
        shards = [
            {
                **_about(layout),
                "raw_data": {"basename": name, "bytes": chunk.nbytes, "hashes": {}},
                "samples": chunk.count,
                "zip_data": None,
            }
            for name, chunk in chunks
        ]
        return msgspec.json.encode({"shards": shards, "version": 2})


def _about(layout: SavedLayout) -> dict[str, Any]:
    return {
        "column_encodings": list(map(_encoding, layout.kinds)),
        "column_names": layout.names,
        "column_sizes": list(map(_size, layout.kinds)),
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


def _encoding(kind: Alike) -> str:
    if isinstance(kind, Text):
        return kind.kind.__name__
    number = _dtype(kind).name
    return number if isinstance(kind, Scalars) else f"ndarray:{number}"


def _size(kind: Alike) -> int | None:
    """Return how many bytes each value of a column has; None if they differ."""
    return kind.dtype.itemsize if isinstance(kind, Scalars) else None


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the dtype of numbers in a file: MDS has no truth values, and one byte order."""
    return np.dtype(np.uint8) if kind.dtype.kind == "b" else kind.dtype.newbyteorder("<")


class _ShardCodec(RowCodec):
    def encoded(self, columns: list[Column], first: int) -> list[bytes]:  # noqa: ARG002
        """See `RowCodec.encoded`."""
        parts = zip(self.layout.names, self.layout.kinds, columns, strict=True)
        each = [[_value(name, kind, value) for value in column] for name, kind, column in parts]
        varies = [number for number, kind in enumerate(self.layout.kinds) if not _size(kind)]
        rows = []
        for row in zip(*each, strict=True):
            sizes = [len(row[number]) for number in varies]
            rows.append(b"".join([np.array(sizes, _U32).tobytes(), *row]))
        return rows

    def file(self, rows: list[bytes]) -> tuple[bytes, bytes]:
        """See `RowCodec.file`."""
        about = msgspec.json.encode(_about(self.layout))
        before = _U32.itemsize * (len(rows) + 2) + len(about)
        ends = before + np.cumsum([0, *map(len, rows)])
        if ends[-1] > _MOST:
            raise ValueError(
                "a file of the format 'mds' has less than 4 GiB: give a smaller chunk_bytes"
            )
        return b"".join([_U32.type(len(rows)).tobytes(), ends.astype(_U32).tobytes(), about]), b""

    def rows(self, data: memoryview, count: int) -> list[list[memoryview]]:
        """See `RowCodec.rows`."""
        fixed = list(map(_size, self.layout.kinds))
        begin = _U32.itemsize * fixed.count(None)
        rows, at = [], 0
        for _ in range(count):
            told = iter(np.frombuffer(data[at : at + begin], _U32).tolist())
            at += begin
            row = []
            for size in fixed:
                stop = at + (size or next(told))
                row.append(data[at:stop])
                at = stop
            rows.append(row)
        return rows

    def columns(self, rows: list[list[memoryview]]) -> Sequence[Column]:
        """See `RowCodec.columns`."""
        return list(map(_column, self.layout.kinds, zip(*rows, strict=True)))


def _value(name: str, kind: Alike, value: Any) -> bytes:
    if isinstance(kind, Text):
        return text_bytes(name, value)
    data: bytes = np.asarray(value, _dtype(kind)).tobytes()
    return data if isinstance(kind, Scalars) else _shape_bytes(value.shape) + data


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    """Return a shape: a byte with the number of axes and the dtype of lengths, and the lengths."""
    width = next(at for at, dtype in enumerate(_AXES) if max(shape) <= np.iinfo(dtype).max)
    return bytes([len(shape) << 2 | width]) + np.array(shape, _AXES[width]).tobytes()


def _column(kind: Any, found: Sequence[memoryview]) -> Column:
    if isinstance(kind, Text):
        return [str(data, "utf-8") if kind.kind is str else bytes(data) for data in found]
    dtype = _dtype(kind)
    if isinstance(kind, Scalars):
        return list(np.frombuffer(b"".join(found), dtype).astype(kind.dtype))
    return [_array(data, dtype).astype(kind.dtype, copy=False) for data in found]


def _array(data: memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    axes, lengths = data[0] >> 2, _AXES[data[0] & 3]
    begin = 1 + axes * lengths.itemsize
    shape = np.frombuffer(data[1:begin], lengths).tolist()
    return np.frombuffer(data[begin:], dtype).reshape(shape)

"""Chunks as TensorFlow's own: each leaf of an element is a record, a ``TensorProto``.

Source: ``core/data/snapshot_utils.cc`` of TensorFlow 2.21.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from penstock.element import Element, read_only, text_array
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.frames.columns import Alike, Scalars, Text, TextArrays
from penstock.frames.compression import snappy_block, snappy_content
from penstock.frames.nest import Column
from penstock.frames.tensors import dtype_of, flat, tensor, tensor_parts
from penstock.saved.chunk_format import ChunkFormat, GroupDecoder, GroupEncoder
from penstock.saved.chunks import Group
from penstock.saved.layout import SavedLayout
from penstock.saved.tfrecord_file import HEAD, TAIL, framed, masked

_IS_TEXT = b"\xf8\x3f\x01"
"""A field 1,023 with the value 1, which TensorFlow skips: the texts were `str`, and not `bytes`."""

_BLOCK = 1 << 18
"""Bytes that are one block of Snappy."""


class TensorFormat(ChunkFormat):
    """The chunks of ``tf.data.experimental.distributed_save``."""

    name, suffix, compressions = "tensorflow", "chunk", ("SNAPPY", "GZIP", None)
    offered = False  # `distributed_save` makes the folder around it

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            if not isinstance(kind, (Text, TextArrays)):
                try:
                    dtype_of(kind.dtype)
                except DatasetError as exc:
                    raise _refusal(name, exc) from exc

    def encoder(self, layout: SavedLayout, compression: str | None) -> GroupEncoder:
        """See `ChunkFormat.encoder`."""
        return _TensorEncoder(layout, compression)

    def decoder(self, layout: SavedLayout, about: Any) -> GroupDecoder:  # noqa: ARG002  it needs none
        """See `ChunkFormat.decoder`."""
        return _TensorDecoder(layout)


def _places(layout: SavedLayout) -> list[int]:
    """Return which column each tensor of an element is of: TensorFlow sorts the keys of dicts."""
    (element,) = layout.join([[number] for number in range(len(layout.kinds))], 1)
    return flat(element)


def _refusal(name: str, why: Exception) -> DatasetError:
    return DatasetError(f"save: {name!r} cannot be written in the format 'tensorflow': {why}")


class _TensorEncoder:
    def __init__(self, layout: SavedLayout, compression: str | None) -> None:
        self._layout, self._compression = layout, compression
        self._groups: list[bytes] = []

    def add(self, columns: list[Column]) -> None:
        """See `GroupEncoder.add`."""
        records = []
        for name, column in zip(self._layout.names, columns, strict=True):
            try:
                records.append([framed(_message(leaf)) for leaf in column])
            except UnicodeEncodeError as exc:
                raise _refusal(name, exc) from exc
        rows = zip(*(records[place] for place in _places(self._layout)), strict=True)
        self._groups.append(_compressed(b"".join(chain.from_iterable(rows)), self._compression))

    def finish(self) -> tuple[Any, list[int]]:
        """See `GroupEncoder.finish`."""
        data = needed("pyarrow", "save").py_buffer(b"".join(self._groups))
        return data, list(accumulate(map(len, self._groups), initial=0))


def _compressed(data: bytes, compression: str | None) -> bytes:
    match compression:
        case None:
            return data
        case "GZIP":
            return gzip.compress(data, compresslevel=6, mtime=0)
    blocks = (snappy_block(data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK))
    return b"".join(struct.pack(">I", len(block)) + block for block in blocks)


def _records(data: bytes) -> bytes:
    """Return the records that were compressed to *data*; its first bytes tell how."""
    if masked(data[:8]).to_bytes(4, "little") == data[8:HEAD]:
        return data
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    blocks, at = list[bytes](), 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        blocks.append(snappy_content(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(blocks)


def _message(leaf: Any) -> bytes:
    message = tensor(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O" and leaf.size:
        return _IS_TEXT + message if isinstance(leaf.flat[0], str) else message
    return message


@dataclass(frozen=True, slots=True)
class _Table:
    """Elements that have these columns."""

    columns: list[Column]
    count: int
    nbytes: int


class _TensorDecoder:
    def __init__(self, layout: SavedLayout) -> None:
        self._layout, self._places = layout, _places(layout)

    def table(self, data: Any, group: Group) -> _Table:
        """See `GroupDecoder.table`."""
        records, at = _records(memoryview(data).tobytes()), 0
        columns: list[Any] = [[] for _ in self._places]
        for _ in range(group.count):
            for place in self._places:
                length = int.from_bytes(records[at : at + 8], "little")
                message = records[at + HEAD : at + HEAD + length]
                columns[place].append(_leaf(self._layout.kinds[place], message))
                at += HEAD + length + TAIL
        return _Table(columns, group.count, len(records))

    def block(self, table: _Table) -> Block:
        """See `GroupDecoder.block`."""
        return self._layout.join(table.columns, table.count)

    def picked(self, table: _Table, rows: Sequence[int]) -> list[Element]:
        """See `GroupDecoder.picked`."""
        return self._layout.join(
            [[column[row] for row in rows] for column in table.columns], len(rows)
        )


def _leaf(kind: Alike, message: bytes) -> Any:
    shape, content = tensor_parts(message)
    match kind:
        case Text():
            return content[0].decode() if kind.kind is str else content[0]
        case TextArrays():
            is_text = message.startswith(_IS_TEXT)
            texts = [text.decode() for text in content] if is_text else content
            return read_only(text_array(texts).reshape(shape))
    little = kind.dtype.newbyteorder("<")
    array = np.frombuffer(b"".join(content), little).astype(kind.dtype, copy=False).reshape(shape)
    return array[()] if isinstance(kind, Scalars) else read_only(array)

"""Chunks as TFRecord files, whose records are each a ``tf.train.Example``.

If elements are `bytes`, these are the records. An Example has a feature for each part of an
element. Arrays of uint8 are one value of bytes, for ``tf.io.decode_raw``. A part of several axes
has a second feature, ``NAME.shape``, and an array of text has ``NAME.text``: whether
it holds `str`.
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example has the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from penstock.element import text_array
from penstock.errors import DatasetError
from penstock.frames.columns import Alike, Scalars, Text, TextArrays, Unequal
from penstock.frames.nest import LEAF, Column
from penstock.frames.tensors import varint
from penstock.saved.layout import SavedLayout
from penstock.saved.row_format import RowCodec, RowFormat, text_bytes

HEAD = 12
"""Bytes of a length and its checksum."""

TAIL = 4

MASK_DELTA = 0xA282EAD8

_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_FLOATS = ("float16", "float32")
_TEXT, _FLOAT, _INTEGER = b"\x0a", b"\x12", b"\x1a"
"""The keys of the lists that a feature may have: of bytes, of floats or of integers."""
_KEY, _FEATURE = b"\x0a", b"\x12"
"""The keys of the two parts of an entry of a map, and of what there may be many of."""
_MORE = 0x80
"""The bit of a byte that more bytes of its number follow."""


def masked(data: bytes) -> int:
    """Return the masked CRC-32C of *data*."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


class _RecordCodec(RowCodec):
    """The bytes of elements, each in a record."""

    def encoded(self, columns: list[Column], first: int) -> list[bytes]:  # noqa: ARG002
        """See `RowCodec.encoded`."""
        return list(map(framed, self._messages(columns)))

    def rows(self, data: memoryview, count: int) -> list[memoryview]:
        """See `RowCodec.rows`."""
        rows, at = [], 0
        for _ in range(count):
            size = int.from_bytes(data[at : at + 8], "little")
            rows.append(data[at + HEAD : at + HEAD + size])
            at += HEAD + size + TAIL
        return rows

    def columns(self, rows: list[memoryview]) -> Sequence[Column]:
        """See `RowCodec.columns`."""
        return [list(map(bytes, rows))]

    def _messages(self, columns: list[Column]) -> Column:
        return columns[0]


class _ExampleCodec(_RecordCodec):
    def __init__(self, layout: SavedLayout) -> None:
        super().__init__(layout)
        self._parts = list(zip(layout.names, layout.kinds, strict=True))

    def _messages(self, columns: list[Column]) -> Column:
        features = [
            (_field(_KEY, (name + suffix).encode(errors="backslashreplace")), messages)
            for (name, kind), column in zip(self._parts, columns, strict=True)
            for suffix, messages in _features(name, kind, column)
        ]
        entries = [
            [_field(_KEY, key + _field(_FEATURE, message)) for message in messages]
            for key, messages in features
        ]
        return [_field(_KEY, b"".join(row)) for row in zip(*entries, strict=True)]

    def columns(self, rows: list[memoryview]) -> Sequence[Column]:
        """See `RowCodec.columns`."""
        features = iter(list(zip(*map(_lists, rows), strict=True)))
        return [_column(kind, features) for _, kind in self._parts]


class TFRecordFormat(RowFormat):
    """TFRecord."""

    name, suffix = "tfrecord", "tfrecord"
    cure = "int64, float32 or bytes"

    def holds(self, kind: Alike) -> bool:
        """See `RowFormat.holds`."""
        dtype = getattr(kind, "dtype", None)
        return dtype is None or dtype.name in (*_INTEGERS, *_FLOATS)

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""
        super().check(layout)
        for name in layout.names:
            whole, _, last = name.rpartition(".")
            if last in ("shape", "text") and whole in layout.names:
                raise DatasetError(
                    f"save: the format 'tfrecord' needs the name {name!r} itself: give this part "
                    "another name"
                )

    def codec(self, layout: SavedLayout) -> RowCodec:
        """See `RowFormat.codec`."""
        is_bytes = layout.nest == LEAF and layout.kinds == (Text(bytes),)
        return (_RecordCodec if is_bytes else _ExampleCodec)(layout)


def framed(data: bytes) -> bytes:
    """Return *data* as a record."""
    size = len(data).to_bytes(8, "little")
    head, tail = (masked(each).to_bytes(4, "little") for each in (size, data))
    return b"".join([size, head, data, tail])


def _field(key: bytes, data: bytes) -> bytes:
    return b"".join([key, varint(len(data)), data])


def _features(name: str, kind: Alike, column: Column) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the features of a part: what follows its name, and the message of each element."""
    match kind:
        case Text():
            yield "", [_texts(name, [text]) for text in column]
        case TextArrays():
            yield "", [_texts(name, array.flat) for array in column]
        case Unequal() if kind.dtype == np.uint8:
            yield "", [_texts(name, [array.tobytes()]) for array in column]
        case _:
            yield "", _numbers(kind.dtype, list(map(np.ravel, column)))
    integers = np.dtype(np.int64)
    if getattr(kind, "ndim", 0) > 1:
        yield ".shape", _numbers(integers, [np.array(array.shape) for array in column])
    if isinstance(kind, TextArrays):
        is_text = [not (array.size and isinstance(array.flat[0], bytes)) for array in column]
        yield ".text", _numbers(integers, list(np.array(is_text)[:, None]))


def _texts(name: str, texts: Any) -> bytes:
    return _field(_TEXT, b"".join(_field(_KEY, text_bytes(name, text)) for text in texts))


def _numbers(dtype: np.dtype[Any], arrays: list[NDArray[Any]]) -> list[bytes]:
    """Return the messages of lists of numbers."""
    ends = np.cumsum([0, *map(len, arrays)])
    flat = np.concatenate(arrays)
    if dtype.kind == "f":
        key, data, ends = _FLOAT, flat.astype("<f4").tobytes(), ends * 4
    else:
        data, number_ends = packed(flat.astype(np.int64))
        key, ends = _INTEGER, number_ends[ends]
    return [_field(key, _field(_KEY, data[low:high])) for low, high in pairwise(ends.tolist())]


def packed(numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    r"""Return *numbers* as protobuf packs them, and where each one begins and the last one ends.

    A byte has seven bits of a number, the lowest ones first.

    >>> packed(np.array([1, 300]))
    (b'\x01\xac\x02', array([0, 1, 3]))
    """
    if not numbers.size or 0 <= numbers.min() <= numbers.max() < _MORE:
        return numbers.astype(np.uint8).tobytes(), np.arange(numbers.size + 1)
    whole = numbers.view(np.uint64)
    shifts = np.arange(0, int(whole.max()).bit_length(), 7, dtype=np.uint64)
    septets = whole[:, None] >> shifts
    is_used = septets > 0
    is_used[:, 0] = True
    coded = (septets & np.uint64(_MORE - 1)).astype(np.uint8)
    coded[:, :-1] |= is_used[:, 1:].astype(np.uint8) << np.uint8(7)
    return coded[is_used].tobytes(), np.append(0, np.cumsum(is_used.sum(axis=1)))


def unpacked(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Return the numbers that were packed, and how many end before each byte, and in all.

    >>> unpacked(b"\x01\xac\x02")
    (array([  1, 300]), array([0, 1, 1, 2]))
    """
    raw = np.frombuffer(data, np.uint8)
    is_last = raw < _MORE
    before = np.append(0, np.cumsum(is_last))
    if is_last.all():
        return raw.astype(np.int64), before
    stops = np.flatnonzero(is_last) + 1
    starts = np.append(0, stops[:-1])
    shifts = 7 * (np.arange(len(raw)) - np.repeat(starts, stops - starts))
    septets = (raw & np.uint8(_MORE - 1)).astype(np.uint64) << shifts.astype(np.uint64)
    return np.add.reduceat(septets, starts).view(np.int64), before


def _length(data: memoryview, at: int) -> tuple[int, int]:
    """Return the length that is at byte *at*, and where its field begins."""
    size, at, shift = data[at], at + 1, 7
    while size >> shift:
        size += (data[at] - 1) << shift
        at, shift = at + 1, shift + 7
    return size, at


def _lists(row: memoryview) -> list[list[memoryview]]:
    """Return what each feature of an Example has: texts, or numbers that are packed."""
    lists = []
    _, at = _length(row, 1)
    while at < len(row):
        _, at = _length(row, at + 1)  # of the entry
        size, at = _length(row, at + 1)  # of its key
        _, at = _length(row, at + size + 1)  # of the feature
        size, at = _length(row, at + 1)  # of its list
        found, end = [], at + size
        while at < end:
            size, at = _length(row, at + 1)
            found.append(row[at : at + size])
            at += size
        lists.append(found)
    return lists


def _column(kind: Alike, features: Iterator[Sequence[list[memoryview]]]) -> Column:
    found = next(features)
    if isinstance(kind, Text):
        return [_text(texts[0], is_text=kind.kind is str) for texts in found]
    if isinstance(kind, TextArrays):
        shapes: Any = _arrays("i", next(features)) if kind.ndim > 1 else map(len, found)
        is_text = chain.from_iterable(_arrays("i", next(features)))
        return [
            text_array([_text(text, is_text=bool(told)) for text in texts]).reshape(shape)
            for texts, shape, told in zip(found, shapes, is_text, strict=True)
        ]
    if isinstance(kind, Unequal) and kind.dtype == np.uint8:
        arrays = [np.frombuffer(data, np.uint8) for (data,) in found]
    else:
        arrays = [array.astype(kind.dtype) for array in _arrays(kind.dtype.kind, found)]
    if isinstance(kind, Scalars):
        return list(np.concatenate(arrays))
    if kind.ndim == 1:
        return arrays
    shapes = _arrays("i", next(features))
    return [array.reshape(shape) for array, shape in zip(arrays, shapes, strict=True)]


def _text(data: memoryview, *, is_text: bool) -> str | bytes:
    return str(data, "utf-8") if is_text else bytes(data)


def _arrays(kind: str, lists: Sequence[list[memoryview]]) -> list[NDArray[Any]]:
    """Return the numbers of each list."""
    if kind == "f":
        return [np.frombuffer(data, "<f4") for (data,) in lists]
    numbers, before = unpacked(b"".join(data for (data,) in lists))
    ends = before[list(accumulate((len(data) for (data,) in lists), initial=0))]
    return [numbers[low:high] for low, high in pairwise(ends.tolist())]

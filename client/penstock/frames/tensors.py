"""Elements and their specs as TensorFlow's protobuf messages, written by hand.

Field numbers are those of its ``tensor.proto``, ``tensor_shape.proto``, ``struct.proto`` and
``worker.proto``. Large arrays are copied once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.element import Element, is_namedtuple
from penstock.errors import DatasetError
from penstock.frames.compression import snappy_block

DTYPES: dict[str, int] = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
STRING = 7

SMALL = 1 << 10
"""Bytes that are copied faster than a view of them is made."""


def element_reply(element: Element) -> bytes:
    """Return the reply that carries *element*.

    Raises:
        DatasetError: when a leaf has a dtype that TensorFlow has not.
    """
    components = [part for leaf in flat(element) for part in _field(1, _tensor(leaf))]
    return b"".join(_field(5, components))


def compressed_reply(element: Element) -> bytes:
    """Return the reply that carries *element* as one block of Snappy.

    Raises:
        DatasetError: when a leaf has a dtype that TensorFlow has not, or Snappy is not installed.
    """
    described: Parts = []
    contents: Parts = []
    for leaf in flat(element):
        dtype, shape, pieces = _pieces(leaf)
        sizes = [varint(_nbytes(piece)) for piece in pieces]
        about = [*_number(1, dtype), *_field(2, _shape(shape)), *_field(4, sizes)]
        described += _field(2, about)
        contents += pieces
    block = snappy_block(b"".join(contents))
    return b"".join(_field(3, [*_field(1, [block]), *described]))


def flat(nest: Any) -> list[Any]:
    """Return the leaves of *nest* in TensorFlow's order, which sorts the keys of dicts."""
    if isinstance(nest, dict):
        return [leaf for key in sorted(nest) for leaf in flat(nest[key])]
    if isinstance(nest, tuple):
        return [leaf for part in nest for leaf in flat(part)]
    return [nest]


def structured(spec: Any) -> bytes:
    """Return *spec*, a nest of leaves with a shape and a dtype, as a ``StructuredValue``.

    Raises:
        DatasetError: when a leaf has a dtype that TensorFlow has not.
    """
    return b"".join(_structured(spec))


def tensor(leaf: Any) -> bytes:
    """Return *leaf* as a ``TensorProto``.

    Raises:
        DatasetError: when it has a dtype that TensorFlow has not.
    """
    return b"".join(_tensor(leaf))


def tensor_parts(message: bytes) -> tuple[tuple[int, ...], list[bytes]]:
    """Return the shape and the content of a ``TensorProto`` that `tensor` made.

    Raises:
        ValueError: when it is malformed.
    """
    shape: list[int] = []
    content: list[bytes] = []
    for number, value in _fields(message):
        match number, value:
            case 2, bytes():
                shape += [next((n for _, n in _fields(size)), 0) for _, size in _fields(value)]
            case ((4 | 8), bytes()):
                content.append(value)
    return tuple(shape), content


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: a number, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _number_at(message, at)
        value, at = _number_at(message, at)
        match tag & 7:
            case 0:
                yield tag >> 3, value
            case 2 if at + value <= len(message):
                yield tag >> 3, message[at : at + value]
                at += value
            case _:
                raise ValueError(f"byte {at} of a message is malformed")


def _number_at(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at byte *at*, and where it ends."""
    value = shift = 0
    while at < len(message):
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError("a message ends too early")


Parts = list[Any]
"""Pieces of a message, bytes or views of arrays, to be joined once."""


def _tensor(leaf: Any) -> Parts:
    dtype, shape, pieces = _pieces(leaf)
    number = 8 if dtype == STRING else 4
    return [_head(dtype, shape), *(part for piece in pieces for part in _field(number, [piece]))]


@functools.lru_cache(maxsize=1024)
def _head(dtype: int, shape: tuple[int, ...]) -> bytes:
    """Return what a tensor begins with: most elements have that of those before them."""
    return b"".join([*_number(1, dtype), *_field(2, _shape(shape))])


def _pieces(leaf: Any) -> tuple[int, tuple[int, ...], Parts]:
    """Return dtype, shape and content of *leaf*: its bytes, or each of its texts."""
    if isinstance(leaf, (str, bytes)):
        return STRING, (), [_text(leaf)]
    array = np.asarray(leaf)
    if array.dtype.kind in "OUS":
        return STRING, array.shape, [_text(text) for text in array.flat]
    number = dtype_of(array.dtype)
    if not array.size:
        return number, array.shape, []
    little = _little(array.dtype)
    if array.dtype != little:
        array = array.astype(little)
    if array.nbytes <= SMALL:
        return number, array.shape, [array.tobytes()]
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return number, array.shape, [content.data]


@functools.lru_cache(maxsize=64)
def _little(dtype: Any) -> Any:
    return dtype.newbyteorder("<")


def _text(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


@functools.lru_cache(maxsize=64)
def dtype_of(dtype: Any) -> int:
    """Return TensorFlow's number of *dtype*.

    Raises:
        DatasetError: when it has none.
    """
    if dtype in (str, bytes):
        return STRING
    number = DTYPES.get(dtype.name)
    if number is None:
        raise DatasetError(
            f"TensorFlow has no dtype {dtype.name}: convert it in the pipeline, as in "
            "map(lambda x: x.astype('int64'))"
        )
    return number


def _shape(shape: tuple[int | None, ...]) -> Parts:
    sizes = (_number(1, -1 if size is None else size) for size in shape)
    return [part for size in sizes for part in _field(2, size)]


def _structured(spec: Any) -> Parts:
    match spec:
        case dict():
            fields = []
            for key, value in spec.items():
                entry = [*_field(1, [str(key).encode()]), *_field(2, _structured(value))]
                fields += _field(1, entry)
            return _field(53, fields)
        case tuple() if is_namedtuple(spec):
            names: Parts = _field(1, [type(spec).__name__.encode()])
            for key, value in zip(spec._fields, spec, strict=True):  # type: ignore[attr-defined]
                pair = [*_field(1, [key.encode()]), *_field(2, _structured(value))]
                names += _field(2, pair)
            return _field(54, names)
        case tuple():
            return _field(52, [part for one in spec for part in _field(1, _structured(one))])
    if not hasattr(spec, "shape"):
        raise DatasetError(f"TensorFlow's client cannot read what looks like {spec!r:.80}")
    return _field(33, [*_field(2, _shape(spec.shape)), *_number(3, dtype_of(spec.dtype))])


def _field(number: int, parts: Parts) -> Parts:
    length = sum(map(_nbytes, parts))
    return [varint(number << 3 | 2) + varint(length), *parts]


def _number(number: int, value: int) -> Parts:
    return [varint(number << 3) + varint(value & (1 << 64) - 1)]


def _nbytes(part: Any) -> int:
    return part.nbytes if isinstance(part, memoryview) else len(part)


def varint(value: int) -> bytes:
    """Return *value* as a number of protobuf."""
    if value <= 0x7F:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = [bytes([value]) for value in range(0x80)]

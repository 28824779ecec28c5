"""How one column of leaves lies in a frame: five encodings, each measured, written and read.

Every part of a column starts on a 64-byte boundary of the payload. A layout does not repeat what
the payload has (lengths of text, differing shapes), so that frames of one task share one layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.element import NestedDataset
from penstock.errors import ElementError
from penstock.frames.buffers import (
    INT,
    Bytes,
    aligned,
    clear,
    cut,
    dtype_from,
    dtype_text,
    get_shapes,
    get_text,
    put_numbers,
    put_text,
    text_sizes,
    view,
)
from penstock.frames.nest import Column
from penstock.protocol.malformed import glimpse

_JOINABLE = {
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scalars:
    """NumPy scalars of one type, as one array."""

    dtype: np.dtype[Any]
    tag: ClassVar[str] = "scalars"

    def alike(self, column: Column) -> bool:
        """Return whether all leaves of *column* are of this kind."""
        if set(map(type, column)) != {self.dtype.type}:
            return False
        return self.dtype.kind not in "mMV" or {leaf.dtype for leaf in column} == {self.dtype}

    def settled(self, _column: Column) -> Kind:
        """Return the kind that all of a frame's *column* has."""
        return self

    def sizes(self, _column: Column) -> int | list[int]:
        """Return how many bytes each leaf of *column* takes: one number where all take the same."""
        return self.dtype.itemsize

    def end(self, column: Column, at: int) -> int:
        """Return where *column* ends when it starts at *at*."""
        return at + len(column) * self.dtype.itemsize

    def write(self, column: Column, out: Bytes, at: int) -> int:
        """Write *column* into *out* from *at* on; return where it ends."""
        end = self.end(column, at)
        if type(column[0]) in _JOINABLE:
            out[at:end] = np.frombuffer(b"".join(column), np.uint8)
        else:
            view(out, at, len(column), self.dtype)[:] = np.array(column, self.dtype)
        return end

    def read(self, data: Bytes, at: int, count: int) -> tuple[Column, int]:
        """Return the column of *count* leaves that starts at *at*, and where it ends."""
        end = at + count * self.dtype.itemsize
        return list(view(data, at, count, self.dtype)), end

    def plain(self) -> Any:
        """Return this kind as plain data."""
        return [self.tag, dtype_text(self.dtype)]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Arrays of one dtype and shape, stacked."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    tag: ClassVar[str] = "fixed"

    def end(self, column: Column, at: int) -> int:
        """See `Scalars.end`."""
        return at + len(column) * math.prod(self.shape) * self.dtype.itemsize

    def write(self, column: Column, out: Bytes, at: int) -> int:
        """See `Scalars.write`."""
        items = len(column) * math.prod(self.shape)
        if items:
            _place(column, view(out, at, items, self.dtype), self.shape)
        return at + items * self.dtype.itemsize

    def read(self, data: Bytes, at: int, count: int) -> tuple[Column, int]:
        """See `Scalars.read`."""
        items = count * math.prod(self.shape)
        stacked = view(data, at, items, self.dtype).reshape(count, *self.shape)
        return list(stacked), at + items * self.dtype.itemsize

    def plain(self) -> Any:
        """See `Scalars.plain`."""
        return [self.tag, dtype_text(self.dtype), list(self.shape)]


@dataclass(frozen=True, slots=True)
class Unequal:
    """Arrays of one dtype and number of dimensions: their shapes, then their data."""

    dtype: np.dtype[Any]
    ndim: int
    tag: ClassVar[str] = "ragged"

    def alike(self, column: Column) -> bool:
        """See `Scalars.alike`."""
        if set(map(type, column)) != {np.ndarray}:
            return False
        return {(array.dtype, array.ndim) for array in column} == {(self.dtype, self.ndim)}

    def settled(self, column: Column) -> Kind:
        """See `Scalars.settled`."""
        shapes = _shapes(column)
        return Fixed(self.dtype, shapes.pop()) if len(shapes) == 1 else self

    def sizes(self, column: Column) -> int | list[int]:
        """See `Scalars.sizes`."""
        shapes = _shapes(column)
        if len(shapes) == 1:
            return int(column[0].nbytes)
        return [array.nbytes + self.ndim * INT.itemsize for array in column]

    def end(self, column: Column, at: int) -> int:
        """See `Scalars.end`."""
        at = aligned(at + len(column) * self.ndim * INT.itemsize)
        return at + sum(int(array.nbytes) for array in column)

    def write(self, column: Column, out: Bytes, at: int) -> int:
        """See `Scalars.write`."""
        at = put_numbers(out, at, [array.shape for array in column])
        ends = list(accumulate((array.size for array in column), initial=0))
        flat = view(out, at, ends[-1], self.dtype)
        if self.ndim == 1 and self.dtype.fields is None:
            np.concatenate(column, out=flat)
        else:
            for (low, high), array in zip(pairwise(ends), column, strict=True):
                flat[low:high].reshape(array.shape)[...] = array
        return at + int(flat.nbytes)

    def read(self, data: Bytes, at: int, count: int) -> tuple[Column, int]:
        """See `Scalars.read`."""
        shapes, at = get_shapes(data, at, count, self.ndim)
        ends = [0, *np.cumsum(shapes.prod(axis=1)).tolist()]
        flat = view(data, at, ends[-1], self.dtype)
        column = [flat[low:high] for low, high in pairwise(ends)]
        if self.ndim > 1:
            column = [a.reshape(s) for a, s in zip(column, shapes.tolist(), strict=True)]
        return column, at + ends[-1] * self.dtype.itemsize

    def plain(self) -> Any:
        """See `Scalars.plain`."""
        return [self.tag, dtype_text(self.dtype), self.ndim]


@dataclass(frozen=True, slots=True)
class Text:
    """`str` or `bytes`: where each ends, then all of it."""

    kind: type[str | bytes]
    tag: ClassVar[str] = "text"

    def alike(self, column: Column) -> bool:
        """See `Scalars.alike`."""
        return set(map(type, column)) == {self.kind}

    def settled(self, _column: Column) -> Kind:
        """See `Scalars.settled`."""
        return self

    def sizes(self, column: Column) -> int | list[int]:
        """See `Scalars.sizes`."""
        return [INT.itemsize + size for size in text_sizes(column)]

    def end(self, column: Column, at: int) -> int:
        """See `Scalars.end`."""
        return aligned(at + len(column) * INT.itemsize) + sum(text_sizes(column))

    def write(self, column: Column, out: Bytes, at: int) -> int:
        """See `Scalars.write`."""
        return put_text(out, at, column)

    def read(self, data: Bytes, at: int, count: int) -> tuple[Column, int]:
        """See `Scalars.read`."""
        blob, ends, end = get_text(data, at, count)
        return cut(blob, ends, self.kind is str), end

    def plain(self) -> Any:
        """See `Scalars.plain`."""
        return [self.tag, self.kind.__name__]


@dataclass(frozen=True, slots=True)
class TextArrays:
    """Object arrays of text: shapes, which hold `bytes`, where each text ends, then all of it."""

    ndim: int
    tag: ClassVar[str] = "text arrays"

    def alike(self, column: Column) -> bool:
        """See `Scalars.alike`."""
        if set(map(type, column)) != {np.ndarray}:
            return False
        return {(array.dtype.kind, array.ndim) for array in column} == {("O", self.ndim)}

    def settled(self, _column: Column) -> Kind:
        """See `Scalars.settled`."""
        return self

    def sizes(self, column: Column) -> int | list[int]:
        """See `Scalars.sizes`."""
        head = self.ndim * INT.itemsize + 1
        return [
            head + array.size * INT.itemsize + sum(text_sizes(list(array.flat))) for array in column
        ]

    def end(self, column: Column, at: int) -> int:
        """See `Scalars.end`."""
        at = aligned(aligned(at + len(column) * self.ndim * INT.itemsize) + len(column))
        return Text(str).end([text for array in column for text in array.flat], at)

    def write(self, column: Column, out: Bytes, at: int) -> int:
        """See `Scalars.write`."""
        at = put_numbers(out, at, [array.shape for array in column])
        out[at : at + len(column)] = [_holds_bytes(array) for array in column]
        at = clear(out, at + len(column))
        return put_text(out, at, [text for array in column for text in array.flat])

    def read(self, data: Bytes, at: int, count: int) -> tuple[Column, int]:
        """See `Scalars.read`."""
        shapes, at = get_shapes(data, at, count, self.ndim)
        is_bytes = data[at : at + count].tolist()
        sizes = [0, *np.cumsum(shapes.prod(axis=1)).tolist()]
        blob, ends, end = get_text(data, aligned(at + count), sizes[-1])
        column = []
        for (low, high), shape, as_bytes in zip(
            pairwise(sizes), shapes.tolist(), is_bytes, strict=True
        ):
            array = np.empty(high - low, object)
            array[:] = cut(blob, ends[low : high + 1], not as_bytes)
            column.append(array.reshape(shape))
        return column, end

    def plain(self) -> Any:
        """See `Scalars.plain`."""
        return [self.tag, self.ndim]


Alike: TypeAlias = Scalars | Unequal | Text | TextArrays
"""The properties in which leaves must agree to share a frame."""
Kind: TypeAlias = Alike | Fixed
"""How a frame's column lies there."""


def kind_of(leaf: Any) -> Alike:
    """Return the kind that other leaves must have to share a frame with *leaf*.

    Raises:
        ElementError: when it cannot travel.
    """
    if type(leaf) in (str, bytes):
        return Text(type(leaf))
    if isinstance(leaf, np.generic):
        dtype_text(leaf.dtype)
        return Scalars(leaf.dtype)
    if type(leaf) is np.ndarray and leaf.dtype.kind == "O":
        return TextArrays(leaf.ndim)
    if type(leaf) is np.ndarray:
        dtype_text(leaf.dtype)
        return Unequal(leaf.dtype, leaf.ndim)
    if isinstance(leaf, NestedDataset):
        raise ElementError(
            "a dataset inside an element cannot be distributed: flatten it first, as in "
            "window(size).flat_map(lambda w: w.batch(size))"
        )
    raise ElementError(
        f"a {type(leaf).__name__} cannot travel to another process: map it to arrays, numbers or "
        "text"
    )


def kind_from(plain: Any) -> Kind:
    """Return the kind that `plain` was made of.

    Raises:
        ValueError: when it was made of none.
    """
    match plain:
        case [Scalars.tag, str(dtype)]:
            return Scalars(dtype_from(dtype))
        case [Fixed.tag, str(dtype), list(shape)] if all(map(_is_length, shape)):
            return Fixed(dtype_from(dtype), tuple(shape))
        case [Unequal.tag, str(dtype), int(ndim)] if ndim in _NDIMS:
            return Unequal(dtype_from(dtype), ndim)
        case [Text.tag, "str" | "bytes" as name]:
            return Text(str if name == "str" else bytes)
        case [TextArrays.tag, int(ndim)] if ndim in _NDIMS:
            return TextArrays(ndim)
    raise ValueError(f"{glimpse(plain)} is no kind of leaves")


_NDIMS = range(1, 65)
"""How many dimensions an array may have."""


def _is_length(value: Any) -> bool:
    return type(value) is int and value >= 0


def _shapes(column: Column) -> set[tuple[int, ...]]:
    return {array.shape for array in column}


def _place(column: Column, flat: NDArray[Any], shape: tuple[int, ...]) -> None:
    if shape and flat.dtype.fields is None and len(column) > 1:
        np.concatenate(column, out=flat.reshape(len(column) * shape[0], *shape[1:]))
        return
    # One array needs no call that looks for a common dtype; structured ones would be repacked.
    stacked = flat.reshape(len(column), *shape)
    for place, array in zip(stacked, column, strict=True):
        place[...] = array


def _holds_bytes(array: NDArray[Any]) -> bool:
    return array.size > 0 and isinstance(array.flat[0], bytes)

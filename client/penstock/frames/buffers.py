"""The parts of a frame's columns: views, numbers and text, each on a 64-byte boundary."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ElementError
from penstock.extras import EXTENDED, needed
from penstock.protocol.malformed import MALFORMED, glimpse


@functools.lru_cache(maxsize=256)
def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return *dtype* as text: its character code, or a literal for one with fields."""
    if dtype.hasobject:
        raise ElementError(f"an array of {dtype} cannot travel: it holds Python objects")
    if dtype.name in EXTENDED:  # its code tells its size, not its meaning
        return dtype.name
    return dtype.str if dtype.fields is None else ascii(np.lib.format.dtype_to_descr(dtype))


@functools.lru_cache(maxsize=256)
def dtype_from(text: str) -> np.dtype[Any]:
    """Return the dtype that `dtype_text` told.

    Raises:
        ValueError: when it told none that an array can have.
    """
    try:
        if text.startswith("[") and len(text) <= _LONGEST:
            dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
        elif text in EXTENDED:
            dtype = np.dtype(getattr(needed("ml_dtypes", f"an array of {text}"), text))
        elif _PLAIN.fullmatch(text):
            dtype = np.dtype(text)
        else:
            raise TypeError("it is no name of one")
    except _NO_DTYPE as exc:
        raise ValueError(f"{glimpse(text)} is no dtype") from exc
    if dtype.hasobject or dtype.subdtype is not None:
        raise ValueError(f"{glimpse(text)} holds Python objects, or arrays")
    return dtype


_PLAIN = re.compile(r"[<>|=][?biufcmMSUV]\d{1,10}(\[[^\]]{1,16}\])?", re.ASCII)
_NO_DTYPE: tuple[type[Exception], ...] = (*MALFORMED, SyntaxError)
_LONGEST = 1 << 16
"""Characters of a dtype with fields."""

Bytes: TypeAlias = NDArray[np.uint8]
"""A payload, or the place for one."""

BOUNDARY = 64
INT = np.dtype("<i8")

_DIRECT = 1 << 13
"""Texts that are longer, on average, are copied one by one: joining them is a copy more."""


def aligned(at: int) -> int:
    """Return the first boundary at or after *at*."""
    return -(-at // BOUNDARY) * BOUNDARY


def clear(out: Bytes, at: int) -> int:
    """Zero *out* from *at* to the next boundary, and return that: nothing old travels along."""
    end = aligned(at)
    out[at:end] = 0
    return end


def view(data: Bytes, at: int, items: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return *items* of *dtype* that lie in *data* from *at* on.

    Raises:
        ValueError: when they would reach over its end.
    """
    end = at + items * dtype.itemsize
    if items < 0 or end > len(data):
        raise ValueError(f"a column ends at byte {end} of a payload of {len(data)}")
    if at == end:  # there is no view of no bytes
        if items and dtype.kind in "SU":  # NumPy would make room for a character each
            raise ValueError(f"{items} texts of no bytes")
        return np.empty(items, dtype)
    return data[at:end].view(dtype)


def encoded(texts: Sequence[str | bytes]) -> Sequence[bytes]:
    """Return *texts* as bytes; a `str` may hold what UTF-8 does not, and keeps it."""
    kinds = set(map(type, texts))
    if kinds == {str}:
        with suppress(UnicodeEncodeError):
            return list(map(str.encode, cast("Sequence[str]", texts)))
    elif kinds == {bytes}:
        return cast("Sequence[bytes]", texts)
    return [
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts
    ]


def text_sizes(texts: Sequence[str | bytes]) -> list[int]:
    """Return how many bytes each of *texts* is."""
    if set(map(type, texts)) == {str} and all(map(str.isascii, cast("Sequence[str]", texts))):
        return list(map(len, texts))
    return list(map(len, encoded(texts)))


def put_numbers(out: Bytes, at: int, rows: Sequence[Any] | NDArray[Any]) -> int:
    """Write integers from *at* on; return the boundary after them."""
    numbers = np.array(rows, INT).reshape(-1)
    out[at : at + numbers.nbytes] = numbers.view(np.uint8)
    return clear(out, at + numbers.nbytes)


def get_numbers(data: Bytes, at: int, count: int) -> tuple[NDArray[np.int64], int]:
    """Return *count* integers from *at* on, and the boundary after them."""
    return view(data, at, count, INT), aligned(at + count * INT.itemsize)


def get_shapes(data: Bytes, at: int, count: int, ndim: int) -> tuple[NDArray[np.int64], int]:
    """Return *count* shapes of arrays that all lie in *data*, and the boundary after them.

    Raises:
        ValueError: when they cannot: a length is negative, or together they are larger.
    """
    numbers, at = get_numbers(data, at, count * ndim)
    shapes = numbers.reshape(count, ndim)
    with np.errstate(over="ignore", invalid="ignore"):  # far too large is too large
        items = float(shapes.prod(axis=1, dtype=np.float64).sum())
    if int(numbers.min(initial=0)) < 0 or not items <= len(data):
        raise ValueError(f"arrays of {items:g} items in a payload of {len(data)} bytes")
    return shapes, at


def put_text(out: Bytes, at: int, texts: Sequence[str | bytes]) -> int:
    """Write where each of *texts* ends, then all of them; return where they end."""
    pieces = encoded(texts)
    ends = np.cumsum(list(map(len, pieces)), dtype=INT)
    start = at = put_numbers(out, at, ends)
    total = int(ends[-1]) if len(ends) else 0
    if total < _DIRECT * len(pieces):
        out[start : start + total] = np.frombuffer(b"".join(pieces), np.uint8)
    else:
        for text in pieces:
            out[at : at + len(text)] = np.frombuffer(text, np.uint8)
            at += len(text)
    return start + total


def get_text(data: Bytes, at: int, count: int) -> tuple[Bytes, list[int], int]:
    """Return all of *count* texts, where each starts, at last ends, and where all of it ends."""
    numbers, start = get_numbers(data, at, count)
    ends = [0, *numbers.tolist()]
    end = start + ends[-1]
    falls = len(numbers) and (int(numbers[0]) < 0 or (numbers[1:] < numbers[:-1]).any())
    if end > len(data) or falls:
        raise ValueError(f"text ends at byte {end} of a payload of {len(data)}")
    return data[start:end], ends, end


def cut(blob: Bytes, ends: Sequence[int], as_str: bool) -> list[str] | list[bytes]:
    """Return the texts between *ends* in *blob*."""
    low, high = ends[0], ends[-1]
    joined = blob[low:high].tobytes()
    if not as_str:
        return [joined[a - low : b - low] for a, b in pairwise(ends)]
    if joined.isascii():
        text = joined.decode("ascii")
        return [text[a - low : b - low] for a, b in pairwise(ends)]
    return [joined[a - low : b - low].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)]

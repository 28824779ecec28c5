"""Ragged arrays: arrays of different lengths as one leaf, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.element import describe, joined, leaves, map_leaves, shown, structure
from penstock.errors import ElementError
from penstock.frames.nest import travels_as_itself
from penstock.normalise import as_array
from penstock.padding import pad_value


@travels_as_itself
class Ragged(NamedTuple):
    """Arrays of different lengths, one after another in one array: rows without padding.

    Row *i* is ``values[offsets[i] : offsets[i + 1]]``. This is what `Dataset.ragged_batch` makes
    of arrays, and what a function returns for a list whose arrays differ in length. `batch` makes a
    `Ragged` of elements that are ragged themselves: its *values* are a `Ragged`, too.

    The order of the two fields is that of ``torch.nested.nested_tensor_from_jagged`` and of
    ``tf.RaggedTensor.from_row_splits``.

    Args:
        values: the rows one after another, of shape ``(sum of lengths, ...)``.
        offsets: where each row begins, and the last one's end: ``int64`` of shape ``(rows + 1,)``.

    >>> tokens = Ragged.of([[1, 2, 3], [4], [5, 6]])
    >>> tokens.offsets.tolist(), tokens.lengths.tolist()
    ([0, 3, 4, 6], [3, 1, 2])
    >>> tokens.padded()
    array([[1, 2, 3],
           [4, 0, 0],
           [5, 6, 0]])
    """

    values: Any
    offsets: Any

    @classmethod
    def of(cls, arrays: Sequence[Any], like: Any = None) -> Ragged:
        """Return *arrays* as rows.

        Args:
            arrays: arrays or lists, alike in dtype and in all axes but the first.
            like: an array of the dtype and the axes of a row, where there may be no rows at all.

        Raises:
            ElementError: when the arrays differ in more than their lengths, when one has no axis,
                or when there is none and *like* is not given.

        >>> Ragged.of([], like=np.empty((0, 3), np.float32)).values.shape
        (0, 3)
        """
        made = [as_array(array) for array in arrays]
        if not made:
            if like is None:
                raise ElementError(
                    "Ragged.of: there are no arrays, so nothing tells their dtype: give an array "
                    "like them, as in Ragged.of([], like=np.empty(0, np.int32))"
                )
            return cls(as_array(like)[:0], np.zeros(1, np.int64))
        return cls(_joined(made), _offsets(list(map(len, made))))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each row: ``int64`` of shape ``(rows,)``."""
        return np.diff(np.asarray(self.offsets))

    def rows(self) -> list[Any]:
        """Return the rows: views of the values, or a `Ragged` each where the values are one.

        >>> [row.tolist() for row in Ragged.of([[1, 2], [3]]).rows()]
        [[1, 2], [3]]
        """
        bounds = list(pairwise(np.asarray(self.offsets).tolist()))
        if not isinstance(self.values, Ragged):
            return [self.values[start:stop] for start, stop in bounds]
        return [_cut(self.values, start, stop) for start, stop in bounds]

    def padded(self, value: Any = 0, length: int | None = None) -> NDArray[Any]:
        """Return the rows in one array, each filled up with *value* at its end.

        Args:
            value: what to fill up with; it must fit the dtype.
            length: the length of all rows; None is that of the longest.

        Returns:
            An array of shape ``(rows, length, ...)``.

        Raises:
            ElementError: when the dtype cannot hold *value*, a row is longer than *length*, or the
                rows are ragged themselves.

        >>> Ragged.of([[1, 2], [3]]).padded(-1, length=3)
        array([[ 1,  2, -1],
               [ 3, -1, -1]])
        """
        if isinstance(self.values, Ragged):
            raise ElementError(
                "Ragged.padded: the rows are ragged themselves: pad each of rows() by itself"
            )
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        if length is not None and longest > length:
            raise ElementError(
                f"Ragged.padded: a row of length {longest} is longer than length={length}: cut the "
                "rows before, or give a larger length"
            )
        columns, dtype = longest if length is None else length, self.values.dtype
        fill = value if dtype.hasobject else pad_value(value, dtype)
        if fill is None:
            raise ElementError(
                f"Ragged.padded: value={value!r} does not fit the rows, which are {dtype}: give "
                "one that does, or map the rows to another dtype"
            )
        out = np.full((len(lengths), columns, *self.values.shape[1:]), fill, dtype)
        out[np.arange(columns) < lengths[:, None]] = self.values
        return out

    @property
    def _count(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def _unstack(self, start: int, stop: int) -> list[Any]:
        """Return the rows from *start* to *stop*, none of which keeps the others in memory."""
        return [map_leaves(np.copy, row) for row in _cut(self, start, stop).rows()]

    def _cut(self, start: int, stop: int) -> Ragged:
        """Return the rows from *start* to *stop* as views."""
        return _cut(self, start, stop)

    @classmethod
    def _join(cls, parts: Sequence[Ragged]) -> Ragged:
        """Return the rows of all *parts*, one after another."""
        return _concatenated(parts)

    @classmethod
    def _stack(cls, elements: Sequence[Ragged]) -> Ragged:
        """Return *elements* as the rows of a `Ragged`; `penstock.element.collate` calls it."""
        return cls(_concatenated(elements), _offsets([len(each.offsets) - 1 for each in elements]))


def _cut(rows: Ragged, start: int, stop: int) -> Ragged:
    """Return *rows* number *start* to *stop*."""
    offsets = rows.offsets[start : stop + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    values = rows.values
    inner = _cut(values, first, last) if isinstance(values, Ragged) else values[first:last]
    return Ragged(inner, offsets - first)


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    # An empty list has no dtype: it takes that of the others.
    sample = next((array for array in arrays if array.size), arrays[0])
    for array in arrays:
        if not array.ndim or (array.shape[1:] != sample.shape[1:] and array.shape != (0,)):
            raise _differ(sample, array)
        if array.size and array.dtype != sample.dtype:
            raise _differ(sample, array)
    alike = [array for array in arrays if array.dtype == sample.dtype and array.ndim == sample.ndim]
    return joined(alike)


def _concatenated(elements: Sequence[Ragged]) -> Ragged:
    """Return the rows of all *elements*, one after another."""
    first = elements[0]
    for each in elements:
        if structure(each) != structure(first):
            raise _differ(first, each)
    ends = np.cumsum([0, *(int(each.offsets[-1]) for each in elements)])
    offsets = [each.offsets[1:] + end for each, end in zip(elements, ends[:-1], strict=True)]
    values = [each.values for each in elements]
    inner = _concatenated(values) if isinstance(first.values, Ragged) else _joined(values)
    return Ragged(inner, np.concatenate([np.zeros(1, np.int64), *offsets]))


def _offsets(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _differ(first: Any, other: Any) -> ElementError:
    what = describe(other) if leaves(other) else shown(other)
    return ElementError(
        "rows of one ragged array must be alike in dtype and in all axes but the first, but "
        f"{describe(first)} is followed by {what}: map them to one dtype and shape first"
    )

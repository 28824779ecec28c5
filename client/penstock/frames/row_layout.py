"""How a batch of elements that are alike lies in memory, so that each element can be written there.

Leaf by leaf, as `collate` stacks them: each column on a 64-byte boundary, a row for each element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import msgspec
import numpy as np

from penstock.element import Element, leaves, rebuild, stacks_by_leaf
from penstock.frames.buffers import Bytes, aligned, view
from penstock.frames.columns import Fixed, Scalars, Unequal, kind_from
from penstock.frames.nest import Column, Nest, nest_from, nest_of

Numbers: TypeAlias = Scalars | Fixed
"""The kinds that the leaves of a column may have."""


class RowLayout:
    """*rows* elements of the structure *nest*, whose leaves are of these *kinds*."""

    def __init__(self, nest: Nest, kinds: tuple[Numbers, ...], rows: int) -> None:
        self._nest, self._kinds, self.rows = nest, kinds, rows
        self._structure = nest.plain()
        self._starts: list[int] = []
        at = 0
        for kind in kinds:
            self._starts.append(aligned(at))
            at = self._starts[-1] + rows * _row_nbytes(kind)
        self.nbytes = aligned(at)
        """Bytes of all rows."""

    @classmethod
    def of(cls, element: Element, rows: int) -> Self | None:
        """Return how *rows* elements like this one lie; None if they need memory of their own.

        That is so of texts, of ragged arrays, and where `collate` changes the dtype.
        """
        if not stacks_by_leaf(element):
            return None
        kinds = list(map(_kind, leaves(element)))
        if not kinds or None in kinds:
            return None
        return cls(nest_of(element), tuple(kind for kind in kinds if kind is not None), rows)

    @classmethod
    def from_bytes(cls, told: bytes) -> Self:
        """Return the layout that `to_bytes` told."""
        plain, kinds, rows = msgspec.msgpack.decode(told)
        return cls(nest_from(plain), tuple(map(kind_from, kinds)), rows)  # type: ignore[arg-type]  # `to_bytes` tells no others

    def to_bytes(self) -> bytes:
        """Return this layout as it travels."""
        kinds = [kind.plain() for kind in self._kinds]
        return msgspec.msgpack.encode([self._structure, kinds, self.rows])

    def columns(self, block: Sequence[Element]) -> list[Column] | None:
        """Return *block* leaf by leaf; None unless all of it is of this layout."""
        nest, columns = nest_of(block[0]), list[Column]()
        # A named tuple has another type in another process, so names and fields are compared.
        if nest != self._nest and nest.plain() != self._structure:
            return None
        if not nest.split(block, columns):
            return None
        return columns if all(map(_alike, self._kinds, columns)) else None

    def write(self, columns: Sequence[Column], memory: Bytes, row: int) -> None:
        """Write elements, leaf by leaf as `columns` gives them, from *row* of *memory* on."""
        for kind, column, start in zip(self._kinds, columns, self._starts, strict=True):
            kind.write(column, memory, start + row * _row_nbytes(kind))

    def stacked(self, memory: Bytes, like: Element) -> Element:
        """Return all rows of *memory* as one element like *like*: views of it."""
        columns = []
        for kind, start in zip(self._kinds, self._starts, strict=True):
            shape = (self.rows, *(kind.shape if isinstance(kind, Fixed) else ()))
            columns.append(view(memory, start, math.prod(shape), kind.dtype).reshape(shape))
        return rebuild(like, columns)


def _kind(leaf: Any) -> Numbers | None:
    """Return how leaves like this one are stacked, if they keep their dtype."""
    if not isinstance(leaf, (np.generic, np.ndarray)):
        return None
    if leaf.dtype.kind not in "biufcmM" or not leaf.dtype.isnative:
        return None
    return Fixed(leaf.dtype, leaf.shape) if isinstance(leaf, np.ndarray) else Scalars(leaf.dtype)


def _row_nbytes(kind: Numbers) -> int:
    return kind.dtype.itemsize * (math.prod(kind.shape) if isinstance(kind, Fixed) else 1)


def _alike(kind: Numbers, column: Column) -> bool:
    if isinstance(kind, Scalars):
        return kind.alike(column)
    if not Unequal(kind.dtype, len(kind.shape)).alike(column):
        return False
    return {array.shape for array in column} == {kind.shape}

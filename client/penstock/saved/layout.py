"""The layout of a saved dataset: the structure of its elements, and the kind of each leaf.

All elements have the same one, so that each leaf is one column of a table.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, describe, leaves
from penstock.errors import ElementError
from penstock.frames.buffers import text_sizes
from penstock.frames.columns import Alike, Fixed, Scalars, Text, TextArrays, kind_from, kind_of
from penstock.frames.nest import Column, Dict, Nest, Tuple, nest_from, nest_of
from penstock.protocol.malformed import MALFORMED

_UNFIT: tuple[type[Exception], ...] = (*MALFORMED, binascii.Error)
_NUMBER = 8
"""Bytes of a length or an offset."""


@dataclass(frozen=True, slots=True)
class SavedLayout:
    """Elements of structure *nest*, whose leaves have these *kinds*."""

    nest: Nest
    kinds: tuple[Alike, ...]

    @classmethod
    def of(cls, element: Element) -> SavedLayout:
        """Return the layout of *element*.

        Raises:
            ElementError: when a part of it can be saved in no file.
        """
        kinds = tuple(map(kind_of, leaves(element)))
        if not kinds:
            raise ElementError("an element without any part, such as (), cannot be saved")
        return cls(nest_of(element), kinds)

    @classmethod
    def from_text(cls, text: str) -> SavedLayout:
        """Return the layout that `to_text` told.

        Raises:
            ValueError: when it told none.
        """
        try:
            nest, kinds = msgspec.msgpack.decode(base64.b64decode(text, validate=True))
            found = tuple(map(kind_from, kinds))
            if any(isinstance(kind, Fixed) for kind in found):
                raise ValueError("a shape that is the same for all")
            return cls(nest_from(nest), found)  # type: ignore[arg-type]  # no `Fixed`, as checked
        except _UNFIT as exc:
            raise ValueError(f"this is no layout of elements: {exc}") from exc

    def to_text(self) -> str:
        """Return this layout as text."""
        plain = [self.nest.plain(), [kind.plain() for kind in self.kinds]]
        return base64.b64encode(msgspec.msgpack.encode(plain)).decode()

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each column: its keys and positions, joined by dots."""
        made = _names(self.nest, "")
        names = tuple(name.encode(errors="backslashreplace").decode() for name in made)
        return names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))

    def columns(self, elements: Sequence[Element]) -> list[Column]:
        """Return *elements* column by column.

        Raises:
            ElementError: when one of them has another structure, or a leaf of another kind.
        """
        columns: list[Column] = []
        if not self.nest.split(elements, columns):
            self._refuse(elements)
        for kind, column in zip(self.kinds, columns, strict=True):
            if not kind.alike(column):
                self._refuse(elements)
        return columns

    def _refuse(self, elements: Sequence[Element]) -> None:
        for element in elements:
            if SavedLayout.of(element) != self:
                raise ElementError(
                    f"{describe(element)} is not like the elements before it: all elements of a "
                    "saved dataset have one structure, and each part has one dtype and number of "
                    "axes; map them to one"
                )
        raise AssertionError("one of these elements must differ")

    def join(self, columns: Sequence[Column], count: int) -> list[Element]:
        """Return *count* elements that have these *columns*."""
        return list(self.nest.join(list(reversed(columns)), count))

    def sizes(self, columns: Sequence[Column], count: int) -> NDArray[np.int64]:
        """Return about how many bytes each of *count* elements takes.

        It depends on each element alone, not on those beside it.
        """
        sizes = np.zeros(count, np.int64)
        for kind, column in zip(self.kinds, columns, strict=True):
            sizes += _sizes(kind, column)
        return sizes


def _sizes(kind: Alike, column: Column) -> NDArray[np.int64] | int:
    match kind:
        case Scalars():
            return kind.dtype.itemsize
        case Text():
            return np.array(text_sizes(column), np.int64) + _NUMBER
        case TextArrays():
            inside = [sum(text_sizes(list(array.flat))) + _NUMBER * array.size for array in column]
            return np.array(inside, np.int64) + _NUMBER * kind.ndim
    return np.array([array.nbytes for array in column], np.int64) + _NUMBER * kind.ndim


def _names(nest: Nest, above: str) -> list[str]:
    keys: Sequence[object]
    match nest:
        case Dict():
            keys = nest.keys
        case Tuple() if nest.kind is not tuple:
            keys = nest.kind._fields  # type: ignore[attr-defined]  # of a named tuple
        case Tuple():
            keys = range(len(nest.parts))
        case _:
            return [above or "element"]
    names: list[str] = []
    for key, part in zip(keys, nest.parts, strict=True):
        names += _names(part, f"{above}.{key}" if above else str(key))
    return names

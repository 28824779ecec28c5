"""Documents as elements: their tokens, and packs of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.element import TEXT, Element, collate, describe
from penstock.engine.tallies import Tallies, Tally
from penstock.errors import DatasetError, ElementError
from penstock.options import check_count
from penstock.padding import pad_value
from penstock.reference import Reference

_MADE = ("segment_ids", "positions", "cu_seqlens")
_MOST = 2**31 - 2
"""The largest capacity: positions and offsets are int32."""


def check_capacity(op: str, name: str, value: Any) -> int:
    """Return *value* as the number of tokens that a pack holds at most."""
    capacity = check_count(op, name, value)
    if capacity > _MOST:
        raise DatasetError(f"{op}: {name} must be at most {_MOST}, not {capacity}")
    return capacity


def check_field(op: str, field: Any) -> None:
    """Check that *field* names the tokens of an element, or is None."""
    if field is not None and not isinstance(field, str):
        raise DatasetError(f"{op}: field must be the name of a field or None, not {field!r}")
    if field in _MADE:
        raise DatasetError(f"{op}: field must not be {field!r}, which packs have beside the tokens")


class Documents:
    """Reads the tokens of elements, and joins them to packs of at most *capacity*.

    *tally* counts the tokens of packs, and their padding.
    """

    def __init__(
        self, op: str, field: str | None, pad: int | None, capacity: int, tally: Tally
    ) -> None:
        self.op, self.capacity, self._tally = op, capacity, tally
        self._field, self._pad = field, pad
        self._name = "tokens" if field is None else field
        self._counting = np.arange(2, dtype=np.int32)
        """The numbers from 0 on, as many as were needed so far."""
        self._known_fill: Any = None
        """What the last padded pack was padded with."""

    def length(self, element: Element, number: int | None = None) -> int:
        """Return how many tokens an element has, if its other fields have one entry for each.

        Raises:
            ElementError: when it has no tokens, or another field does not fit them.
        """
        length = self.tokens(element, number)
        if len(element) > 1 and self._field is not None:
            self._check_others(element, length, _which(number))
        return length

    def tokens(self, element: Element, number: int | None = None) -> int:
        """Return how many tokens an element has.

        Raises:
            ElementError: when it has no array of one axis there.
        """
        name = self._field
        if name is None:
            if is_sequence(element):
                return len(element)
            raise ElementError(
                f"{self.op}: {_which(number)} must be an array of numbers with one axis, but it is "
                f"{describe(element)}: map it to its tokens, or name their field with field="
            )
        if not isinstance(element, dict) or name not in element:
            raise ElementError(
                f"{self.op}: {_which(number)} must be a dict with a field {name!r}, but it is "
                f"{describe(element)}: name the field of the tokens with field=, or give "
                "field=None if the elements are the tokens"
            )
        tokens = element[name]
        if not is_sequence(tokens):
            raise ElementError(
                f"{self.op}: field {name!r} of {_which(number)} must be an array of numbers with "
                f"one axis, but it is {describe(tokens)}"
            )
        return len(tokens)

    def pieces(self, element: Element, start: int, stop: int | None) -> Element:
        """Return tokens *start* to *stop* (None: all), and what other fields have for them."""
        if self._field is None:
            return element[start:stop]
        return {
            name: part if belongs_to_all(part) else part[start:stop]
            for name, part in element.items()
        }

    def lengths(self, elements: Sequence[Element]) -> list[int] | None:
        """Return how many tokens each element has; None if `length` must look at each.

        It need not if they have tokens of one dtype, and nothing else.
        """
        columns: Sequence[Any] = elements
        if self._field is not None:
            if set(map(type, elements)) != {dict} or set(map(len, elements)) != {1}:
                return None
            columns = [each.get(self._field) for each in elements]
        if set(map(type, columns)) != {np.ndarray} or not is_sequence(columns[0]):
            return None
        dtype = columns[0].dtype
        if any(each.ndim != 1 or each.dtype is not dtype for each in columns):
            return None
        return list(map(len, columns))

    def join(self, pieces: Sequence[Any]) -> Element:
        """Return a pack of *pieces*.

        Raises:
            ElementError: when they have different fields or dtypes, or *pad* does not fit a dtype.
        """
        parts = pieces if self._field is None else [piece[self._field] for piece in pieces]
        made, name = self._joined(pieces, parts), self._name
        lengths = list(map(len, parts))
        stops = np.array([0, *accumulate(lengths)], np.int32)
        total, counting = len(made[name]), self._counting
        if len(counting) <= total:
            counting = self._counting = np.arange(2 * total, dtype=np.int32)
        counts = np.array(lengths)
        segments = counting[1 : len(pieces) + 1].repeat(counts)
        starts = stops[:-1].repeat(counts)
        positions = np.subtract(counting[:total], starts, out=starts)
        if self._pad is not None:
            first = {} if self._field is None else pieces[0]
            fill = self._fill(self._pad, made[name].dtype)
            made = {
                each: column
                if belongs_to_all(first.get(each))
                else self._padded(column, fill if each == name else 0)
                for each, column in made.items()
            }
            segments, positions = self._padded(segments, 0), self._padded(positions, 0)
            room = np.full(self.capacity - len(pieces), total, np.int32)
            stops = np.concatenate([stops, room])
        self.count_pack(total)
        return {**made, "segment_ids": segments, "positions": positions, "cu_seqlens": stops}

    def count_pack(self, tokens: int) -> None:
        """Add a pack of this number of *tokens* to the tally."""
        tally = self._tally
        tally.made += tokens
        if self._pad is not None:
            tally.positions += self.capacity
            tally.padding += self.capacity - tokens

    def _check_others(self, element: dict[str, Any], length: int, which: str) -> None:
        for name, part in element.items():
            if name in _MADE:
                raise ElementError(
                    f"{self.op}: {which} has a field {name!r} already, which packs have beside the "
                    "tokens: map it to another name"
                )
            if belongs_to_all(part):
                continue
            if isinstance(part, np.ndarray) and part.shape[:1] == (length,):
                continue
            raise ElementError(
                f"{self.op}: {which} has {length} tokens, and field {name!r} must have one entry "
                f"for each, or be one number, text or Reference, but it is {describe(part)}: leave "
                "it out with a map before"
            )

    def _joined(self, pieces: Sequence[Any], parts: Sequence[NDArray[Any]]) -> dict[str, Any]:
        """Return *pieces* as one: *parts* are their tokens."""
        if self._field is None or max(map(len, pieces)) == 1:
            try:
                return {self._name: np.concatenate(parts, dtype=parts[0].dtype, casting="no")}
            except TypeError:  # their dtypes differ
                pass
        first = pieces[0]
        kind = _kind(first)
        if (other := next((piece for piece in pieces if _kind(piece) != kind), None)) is not None:
            raise ElementError(
                f"{self.op}: documents of one pack must have the same fields and dtypes, but "
                f"{describe(first)} is packed with {describe(other)}: map them to one form first"
            )
        columns = {name: [piece[name] for piece in pieces] for name in first}
        return {
            name: collate(column) if belongs_to_all(column[0]) else np.concatenate(column)
            for name, column in columns.items()
        }

    def _fill(self, pad: int, dtype: np.dtype[Any]) -> Any:
        """Return *pad* as a scalar of *dtype*."""
        if self._known_fill is None or self._known_fill.dtype != dtype:
            self._known_fill = pad_value(pad, dtype)
            if self._known_fill is None:
                raise ElementError(
                    f"{self.op}: pad={pad} does not fit the tokens, which are {dtype}: give a "
                    "number that does, or map the tokens to another dtype"
                )
        return self._known_fill

    def _padded(self, column: NDArray[Any], value: Any) -> NDArray[Any]:
        whole = np.full((self.capacity, *column.shape[1:]), value, column.dtype)
        whole[: len(column)] = column
        return whole


def is_sequence(value: Any) -> bool:
    """Return whether *value* is an array of numbers with one axis, such as tokens."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and not value.dtype.hasobject


def belongs_to_all(part: Any) -> bool:
    """Return whether *part* of a document is one value for all its tokens: no array."""
    if isinstance(part, Reference):
        return not np.shape(part.size)
    return isinstance(part, (np.generic, *TEXT))


def _which(number: int | None) -> str:
    return "an element" if number is None else f"element {number}"


def _kind(piece: Any) -> tuple[Any, ...]:
    """Return what documents of one pack must have in common."""
    if isinstance(piece, np.ndarray):
        return (piece.dtype,)
    return tuple(sorted((name, *_kind_of(part)) for name, part in piece.items()))


def _kind_of(part: Any) -> tuple[Any, ...]:
    if isinstance(part, np.ndarray):
        return part.dtype.str, part.shape[1:]
    return type(part).__name__, part.dtype.str if isinstance(part, np.generic) else ""


class DocumentIntake:
    """An `Intake` of documents; *split_long* says what becomes of those beyond the capacity."""

    def __init__(self, documents: Documents, split_long: str, tallies: Tallies) -> None:
        self._documents, self._long, self._tallies = documents, split_long, tallies
        self._capacity = documents.capacity

    def costs(self, elements: Sequence[Element]) -> list[float | None]:
        """See `Intake.costs`."""
        lengths, capacity = self._documents.lengths(elements) if elements else [], self._capacity
        if lengths is None:
            return [None] * len(elements)
        return [length if 0 < length <= capacity else None for length in lengths]

    def measure(self, element: Element, number: int) -> tuple[int, float | None]:
        """See `Intake.measure`."""
        length, capacity = self._documents.length(element, number), self._capacity
        if 0 < length <= capacity:
            return 0, length
        if not length:
            return 0, None
        match self._long:
            case "cut":
                whole, left = divmod(length, capacity)
                return whole, left or None
            case "drop":
                self._tallies.skip()
                return 0, None
        raise ElementError(
            f"{self._documents.op}: element {number} has {length} tokens, more than the "
            f"{capacity} that fit: give more room, or cut or filter long documents before"
        )

    def whole(self, element: Element, piece: int) -> Element:
        """See `Intake.whole`."""
        start = piece * self._capacity
        return self._documents.join(
            [self._documents.pieces(element, start, start + self._capacity)]
        )

    def left(self, element: Element, whole: int) -> Element:
        """See `Intake.left`."""
        return self._documents.pieces(element, whole * self._capacity, None) if whole else element

    def join(self, group: list[Element]) -> Element:
        """See `Intake.join`."""
        return self._documents.join(group)

"""Elements that were not made yet: rows of stacked arrays, by their numbers.

A source of arrays gives `Rows`, and an operator that only chooses among elements passes them on:
its work is arithmetic of numbers. An operator that stacks elements gathers them once, leaf by leaf.
An operator that needs the elements themselves makes them (`elements_of`) and sees no difference.

    from_tensor_slices ──Rows──▶ shuffle ──Rows──▶ take ──Rows──▶ batch ──list──▶ map
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from penstock.element import (
    Element,
    arranged,
    collate,
    is_flat,
    is_namedtuple,
    is_own,
    leaves,
    map_leaves,
    rebuild,
    unlike,
)
from penstock.normalise import normalise_scalar

Numbers: TypeAlias = "range | NDArray[np.int64]"
"""Which rows, in order; a range has a step of 1 or more."""


class Table(ABC):
    """A table whose rows are elements."""

    kept: ClassVar[bool] = False
    """Whether it is in memory as long as the pipeline is, so that rows of it may be held."""

    @property
    def source(self) -> object:
        """The origin of the rows: two tables with the same object here have the same rows."""
        return self

    @abstractmethod
    def elements(self, which: Numbers) -> list[Element]:
        """Return rows *which*, each as an element."""

    @abstractmethod
    def stacked(self, which: Numbers) -> Element:
        """Return rows *which*, at least one, as one element in new arrays.

        The result is equal to that of `collate`.
        """

    def hand_over(self, which: Numbers) -> Element:
        """Do as `stacked`; the rows are not asked for again, so the arrays may be their memory."""
        return self.stacked(which)


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Element]):
    """Rows *which* of a *table*, in that order: a block of elements."""

    table: Table
    which: Numbers

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, index: int) -> Element: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Element | Rows:
        if isinstance(index, slice):
            return Rows(self.table, self.which[index])
        return self.table.elements(self.which[index : index + 1 or None])[0]

    def __iter__(self) -> Iterator[Element]:
        return iter(self.elements())

    def elements(self) -> list[Element]:
        """Return the elements."""
        return self.table.elements(self.which)

    def stacked(self) -> Element:
        """Return the elements stacked into one; there must be at least one."""
        return self.table.stacked(self.which)

    def hand_over(self) -> Element:
        """Do as `stacked`, but as the last use of the rows: the result may be their memory."""
        return self.table.hand_over(self.which)

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the rows, as an array."""
        which = self.which
        return np.arange(which.start, which.stop, which.step) if type(which) is range else which


Block: TypeAlias = list[Element] | Rows
"""Consecutive elements."""


def elements_of(block: Block) -> list[Element]:
    """Return the elements of *block*."""
    return block.elements() if isinstance(block, Rows) else block


def joined(first: Block, second: Block) -> Block:
    """Return the elements of *first* and then those of *second*; the list *first* is extended.

    Rows stay rows.
    """
    if not first:
        return [*second] if isinstance(second, list) else second  # it may be another's to keep
    if isinstance(first, Rows) and isinstance(second, Rows):
        if same(first.table, second.table):
            return Rows(first.table, _joined(first, second))
        return Rows(_Chain((*_links(first), *_links(second))), range(len(first) + len(second)))
    if isinstance(first, list):
        first += elements_of(second)
        return first
    return [*elements_of(first), *elements_of(second)]


def same(one: Table, other: Table) -> bool:
    """Return whether both have the same rows, under the same numbers."""
    return one.source is other.source


def _joined(first: Rows, second: Rows) -> Numbers:
    a, b = first.which, second.which
    if (
        isinstance(a, range)
        and isinstance(b, range)
        and a.step == b.step == 1
        and a.stop == b.start
    ):
        return range(a.start, b.stop)
    return np.concatenate([first.numbers(), second.numbers()])


class ArrayTable(Table):
    """The rows along the first axis of the arrays in *tensors*; they are views, and read-only."""

    kept = True

    def __init__(self, tensors: Element, columns: list[NDArray[Any]]) -> None:
        self._like = tensors
        self._flat = is_flat(tensors)
        self._columns = columns

    @property
    def source(self) -> object:
        """See `Table.source`."""
        return self._like

    def elements(self, which: Numbers) -> list[Element]:
        """See `Table.elements`."""
        like, at = self._like, index_of(which)
        if isinstance(like, np.ndarray):
            return self._column(self._columns[0], at)
        rows = zip(*(self._column(column, at) for column in self._columns), strict=True)
        if self._flat and isinstance(like, tuple):
            return list(rows)
        if self._flat:
            return [dict(zip(like, row, strict=True)) for row in rows]
        return [rebuild(like, row) for row in rows]

    def stacked(self, which: Numbers) -> Element:
        """See `Table.stacked`."""
        at = index_of(which)
        return rebuild(self._like, [gathered(column, at) for column in self._columns])

    def _column(self, column: NDArray[Any], at: slice | NDArray[np.int64]) -> list[Any]:
        """Return rows *at* of *column*: arrays are views, and not copied."""
        if isinstance(at, slice) or column.ndim == 1:
            return list(column[at])
        return [column[number] for number in at.tolist()]


class ColumnsOfBlock(ArrayTable):
    """The columns of one block: to hold a row of it would be to hold all."""

    kept: ClassVar[bool] = False


class _Chain(Table):
    """The rows of several tables, one after another: of the batches of a file, say."""

    def __init__(self, links: tuple[Rows, ...]) -> None:
        self.links = links
        self.ends = list(accumulate(map(len, links)))

    def elements(self, which: Numbers) -> list[Element]:
        """See `Table.elements`."""
        return [element for rows in self.pieces(which) for element in rows.elements()]

    def stacked(self, which: Numbers) -> Element:
        """See `Table.stacked`."""
        pieces = self.pieces(which)
        if len(pieces) == 1:
            return pieces[0].stacked()
        stacked = [rows.stacked() for rows in pieces]
        columns = list(zip(*(leaves(arranged(stacked[0], each)) for each in stacked), strict=False))
        if unlike(stacked) is None and all(map(_is_alike, columns)):
            return rebuild(stacked[0], [np.concatenate(column) for column in columns])
        return collate([element for rows in pieces for element in rows.elements()])

    def pieces(self, which: Numbers) -> list[Rows]:
        """Return rows *which* by the tables that they are of, in order."""
        if isinstance(which, range) and which.step == 1:
            begins = [0, *self.ends]
            spans = [
                (rows, max(which.start - begin, 0), min(which.stop, end) - begin)
                for rows, begin, end in zip(self.links, begins, self.ends, strict=False)
            ]
            return [rows[low:high] for rows, low, high in spans if low < high]
        numbers = np.asarray(which)
        owners = np.searchsorted(self.ends, numbers, side="right")
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(numbers)]
        found = []
        for low, high in pairwise(cuts):
            owner = int(owners[low])
            rows, begin = self.links[owner], self.ends[owner] - len(self.links[owner])
            found.append(Rows(rows.table, rows.numbers()[numbers[low:high] - begin]))
        return found


def _links(rows: Rows) -> tuple[Rows, ...]:
    """Return *rows* by the tables that they are of."""
    if isinstance(rows.table, _Chain):
        return tuple(rows.table.pieces(rows.which))
    return (rows,)


def _is_alike(column: tuple[NDArray[Any], ...]) -> bool:
    """Return whether `collate` would stack the rows of these arrays without a complaint."""
    first = column[0]
    return all(
        each.dtype == first.dtype
        and each.shape[1:] == first.shape[1:]
        and (each.dtype.kind != "O" or type(each.flat[0]) is type(first.flat[0]))
        for each in column
    )


def stacks_alike(tensors: Element) -> bool:
    """Return whether gathering rows of *tensors* gives the same as `collate`.

    It does not for text, because `collate` checks the kinds of text. It does not for a foreign byte
    order, because `collate` changes the dtype of such scalars.
    """
    return all(leaf.dtype.kind in "biufcmM" and leaf.dtype.isnative for leaf in leaves(tensors))


def gathered(column: NDArray[Any], at: slice | NDArray[np.int64]) -> NDArray[Any]:
    """Return rows *at* of *column* in a new array."""
    if isinstance(at, slice):
        return column[at].copy()
    if column.flags.c_contiguous:
        return column.take(at, axis=0)
    return np.ascontiguousarray(column[at])  # to take would copy all of the column first


def index_of(which: Numbers) -> slice | NDArray[np.int64]:
    """Return *which* as an index for NumPy."""
    return slice(which.start, which.stop, which.step) if isinstance(which, range) else which


def rows(batch: Element, start: int, stop: int) -> list[Element]:
    """Return rows *start* to *stop* of *batch*, none of which keeps the batch in memory."""
    if is_own(batch):
        return list(batch._unstack(start, stop))  # noqa: SLF001
    if isinstance(batch, tuple):
        if not batch:
            return [()] * (stop - start)
        parts = zip(*(rows(part, start, stop) for part in batch), strict=True)
        return [type(batch)(*row) for row in parts] if is_namedtuple(batch) else list(parts)
    if isinstance(batch, dict):
        if not batch:
            return [{} for _ in range(start, stop)]
        parts = zip(*(rows(part, start, stop) for part in batch.values()), strict=True)
        return [dict(zip(batch, row, strict=True)) for row in parts]
    return _array_rows(batch[start:stop])


def _array_rows(part: np.ndarray[Any, Any]) -> list[Any]:
    if part.ndim > 1 or part.dtype.kind == "V":
        return [row.copy() for row in part]
    if part.dtype.hasobject:
        return [normalise_scalar(value) for value in part]
    return list(part)


class BatchTable(Table):
    """The rows of *batch*, which none of them keeps in memory."""

    def __init__(self, batch: Element) -> None:
        self._batch = batch

    def elements(self, which: Numbers) -> list[Element]:
        """See `Table.elements`."""
        if isinstance(which, range) and which.step == 1:
            return rows(self._batch, which.start, which.stop)
        return rows(self.stacked(which), 0, len(which))

    def stacked(self, which: Numbers) -> Element:
        """See `Table.stacked`."""
        at = index_of(which)
        return map_leaves(lambda column: gathered(column, at), self._batch)

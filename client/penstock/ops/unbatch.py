"""`unbatch`: the rows of batches. State: ``[the input's state before the batch, rows so far]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from penstock.element import (
    Element,
    arranged,
    columns,
    describe,
    is_own,
    joined,
    leaves,
    stacks_by_leaf,
    text_kinds,
    with_columns,
)
from penstock.engine.context import Context
from penstock.engine.iterator import (
    ELEMENT_ERRORS,
    Mark,
    OneInputIterator,
    OpIterator,
    RowsIterator,
    State,
)
from penstock.engine.rows import BatchTable, Block, Rows, rows, stacks_alike
from penstock.errors import ElementError
from penstock.graph.node import Node

Part: TypeAlias = tuple[Element, int, int]
"""Rows of a batch: the batch, the first row, and the last row + 1."""


@dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """Each element's rows along the first axis of its leaves."""

    op: ClassVar[str] = "unbatch"
    stays_endless: ClassVar[bool] = True
    splits_elements: ClassVar[bool] = True
    upstream: Node

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        below, row = state or (None, 0)
        return _UnbatchIterator(context.open(self.upstream, below), row)


def row_count(op: str, batch: Element) -> int:
    """Return how many rows *batch* has.

    Raises:
        ElementError: when a leaf has no first axis, or the leaves do not agree.
    """
    counts = set(map(_length, columns(batch)))
    if len(counts) != 1 or None in counts:
        raise ElementError(
            f"{op}: every part of an element must be an array with one row per element, as many as "
            f"the others, but this one is {describe(batch)}: map it to such arrays first"
        )
    return int(counts.pop() or 0)


def _length(column: Any) -> int | None:
    """Return how many rows *column* has; None if it is no column of a batch."""
    if is_own(column):
        return int(column._count)  # noqa: SLF001
    return len(column) if isinstance(column, np.ndarray) else None


def alike(one: Element, other: Element) -> bool:
    """Return whether two batches differ in their number of rows at the most."""
    other = arranged(one, other)
    return other is not None and all(
        a.dtype == b.dtype and a.shape[1:] == b.shape[1:] and len(text_kinds([a, b])) < 2
        for a, b in zip(leaves(one), leaves(other), strict=True)
    )


def join_rows(parts: Sequence[Part]) -> Element:
    """Return the rows of *parts*, whose batches are `alike`, as one batch."""
    first = parts[0][0]
    cuts = zip(*(_cut(first, *part) for part in parts), strict=True)
    return with_columns(first, map(_joined, cuts))


def _cut(like: Element, batch: Element, start: int, stop: int) -> list[Any]:
    return [
        each._cut(start, stop) if is_own(each) else each[start:stop]  # noqa: SLF001
        for each in columns(arranged(like, batch))
    ]


def _joined(cuts: Sequence[Any]) -> Any:
    return type(cuts[0])._join(cuts) if is_own(cuts[0]) else joined(cuts)  # noqa: SLF001


def _block_of(parts: list[Part]) -> Block:
    """Return the rows of *parts*: not made, if they are alike and stack again as they are."""
    if not parts:
        return []
    first, start, stop = parts[0]
    if not leaves(first) or not stacks_alike(first) or not stacks_by_leaf(first):
        return [row for part in parts for row in rows(*part)]
    if len(parts) == 1:
        return Rows(BatchTable(first), range(start, stop))
    if not all(alike(first, batch) for batch, _, _ in parts):
        return [row for part in parts for row in rows(*part)]
    return Rows(BatchTable(join_rows(parts)), range(sum(stop - start for _, start, stop in parts)))


class _UnbatchIterator(OneInputIterator, RowsIterator):
    def __init__(self, upstream: OpIterator, row: int) -> None:
        self._upstream = upstream
        self._batches: list[Element] = []
        """The last block of input."""
        self._mark = upstream.mark()
        self._at = 0
        """Which of the batches has the next row."""
        self._row = row
        self._count: int | None = None
        """How many rows that batch has, once they were counted."""
        self._typical = 1
        """How many rows the last batch with any had."""
        self._runs: list[tuple[int, int, int]] = []
        """The rows in the last block, batch by batch: the batch, its last row + 1, the count."""

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        self._runs = []
        parts: list[Part] = []
        made = 0
        while not parts and self._read(n):
            while made < n and (left := self._left(made=bool(parts))):
                count = min(left, n - made)
                stop = self._row + count
                parts.append((self._batches[self._at], self._row, stop))
                self._runs.append((self._at, stop, count))
                self._go(count)
                made += count
        return _block_of(parts)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        below, size, runs = self._mark, len(self._batches), tuple(self._runs)
        at, row = self._at, self._row

        def state(back: int) -> State:
            if not back:
                return [below(size - at), row]
            left = back
            for batch, stop, count in reversed(runs):
                if left <= count:
                    return [below(size - batch), stop - left]
                left -= count
            raise IndexError(back)

        return state

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Makes no rows."""
        self._runs = []
        skipped = 0
        while skipped < n:
            try:
                if not self._read(n - skipped):
                    break
                while skipped < n and (left := self._left(made=False)):
                    count = min(left, n - skipped)
                    self._go(count)
                    skipped += count
            except ELEMENT_ERRORS:
                continue
        return skipped

    def _read(self, n: int) -> bool:
        """Read input for about *n* rows; return False at the end."""
        if self._at < len(self._batches):
            return True
        self._batches, self._at = [], 0
        try:
            self._batches = self._upstream.block(-(-n // self._typical))
        except ELEMENT_ERRORS:
            self._row = 0
            raise
        finally:
            self._mark = self._upstream.mark()
        return bool(self._batches)

    def _left(self, *, made: bool) -> int:
        """Stand in the next batch that has rows; return how many are left, 0 if none has.

        A batch without rows of its own kind is an error, but not while there are rows *made*.
        """
        while self._at < len(self._batches):
            if self._count is None:
                try:
                    self._count = row_count("unbatch", self._batches[self._at])
                except ELEMENT_ERRORS:
                    if made:
                        return 0
                    self._next()
                    raise
                self._typical = self._count or self._typical
            if self._row < self._count:
                return self._count - self._row
            self._next()
        return 0

    def _go(self, count: int) -> None:
        self._row += count
        if self._row == self._count:
            self._next()

    def _next(self) -> None:
        self._batches[self._at] = None  # it is not needed any more
        self._at, self._row, self._count = self._at + 1, 0, None

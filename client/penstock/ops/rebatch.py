"""`rebatch`: batches resized along their first axis.

State: ``[the input's state, errors, rows]``: as `penstock.ops.internal.input_buffer` for the batch
that the next output begins in, and how many of its rows are used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from penstock.element import Element, describe
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import ElementError
from penstock.graph.node import Node
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.ops.unbatch import Part, alike, join_rows, row_count
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Batches of *size* rows each, as `unbatch` and `batch` would make them."""

    op: ClassVar[str] = "rebatch"
    stays_endless: ClassVar[bool] = True
    splits_elements: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    size: int
    drop_remainder: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count("rebatch", "batch_size", self.size))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        below, errors, row = state or (None, 0, 0)
        held = InputBuffer(context, self.upstream, [below, errors])
        kind = _RowsOfBatches()
        return RebatchIterator(held, row, self.size, drop_remainder=self.drop_remainder, kind=kind)


class RowKind(Protocol):
    """What an operator takes for the rows of an element, and how it joins them."""

    def count(self, element: Element) -> int:
        """Return how many rows *element* has."""
        ...

    def join(self, parts: Sequence[Part]) -> Element:
        """Return the rows of *parts* as one element."""
        ...


class _RowsOfBatches:
    """The rows of batches."""

    def count(self, element: Element) -> int:
        """See `RowKind.count`."""
        return row_count("rebatch", element)

    def join(self, parts: Sequence[Part]) -> Element:
        """See `RowKind.join`."""
        return join(parts)


def join(parts: Sequence[Part]) -> Element:
    """Return the rows of *parts* as one batch.

    Raises:
        ElementError: when the batches differ in more than their number of rows.
    """
    first, start, stop = parts[0]
    if len(parts) == 1 and start == 0 and stop == row_count("rebatch", first):
        return first
    for other, _, _ in parts:
        if not alike(first, other):
            raise ElementError(
                f"rebatch: batches that are joined must be alike, but {describe(first)} is "
                f"followed by {describe(other)}: map them to one dtype and shape first"
            )
    return join_rows(parts)


class RebatchIterator(OpIterator):
    """Elements of *size* rows each, cut from the held elements from row number *row* on."""

    def __init__(
        self, held: InputBuffer, row: int, size: int, *, drop_remainder: bool, kind: RowKind
    ) -> None:
        self._held, self._kind = held, kind
        self._row = row
        """How many rows of the first batch are used up."""
        self._size, self._drop = size, drop_remainder
        self._counts: list[int] = []
        """How many rows the held batches have, as far as they were looked at."""
        self._ready = -row
        """How many of these rows are not used up."""
        self._typical = size
        """How many rows the last batch with any had."""
        self._places: list[tuple[int, int]] = []
        """Where each element of the last block began: batch and row."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        size = self._size
        self._begin()
        if not self._gather(n * size):
            return self._rest()
        out = [self._cut(size, made=False)]
        while len(out) < n and self._gather_held():
            try:
                out.append(self._cut(size, made=True))
            except ELEMENT_ERRORS:
                break
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        at, places = self._held.mark(), (*self._places, (self._held.start, self._row))

        def state(back: int) -> State:
            number, row = places[-1 - back]
            return [*at(number), row]

        return state

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Joins nothing."""
        self._begin()
        skipped = 0
        while skipped < n:
            try:
                if not self._gather((n - skipped) * self._size):
                    break
            except ELEMENT_ERRORS:
                continue
            self._use(self._size)
            skipped += 1
        if skipped < n:
            skipped += self._ready > 0 and not self._drop
            self._use(self._ready)
        self._begin()
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._held.close()

    def _begin(self) -> None:
        self._held.begin()
        self._places = []

    def _gather(self, rows: int) -> bool:
        """Hold the rows of one element, reading about *rows* if needed; return False at the end."""
        while self._ready < self._size:
            if len(self._counts) < len(self._held.elements):
                self._look(made=False)
            elif not self._held.pull(-(-(rows - self._ready) // self._typical)):
                return False
        return True

    def _gather_held(self) -> bool:
        """Return whether the held rows make one more element, without meeting an error."""
        while self._ready < self._size:
            if len(self._counts) == len(self._held.elements) or not self._look(made=True):
                return False
        return True

    def _look(self, *, made: bool) -> bool:
        """Count the rows of the next batch.

        One without rows of its own kind is an error, but not while there is something *made*.
        """
        held, number = self._held, len(self._counts)
        try:
            count = self._kind.count(held.elements[number])
        except ELEMENT_ERRORS:
            if made:
                return False
            self._counts.append(0)
            if not held.passes(held.start + number + 1):
                raise
            return True
        self._counts.append(count)
        self._ready += count
        self._typical = count or self._typical
        return True

    def _cut(self, rows: int, *, made: bool) -> Element:
        """Return the next *rows* rows as one batch.

        Rows that do not go together are dropped with an error, but kept while something is *made*.
        """
        try:
            batch = self._kind.join(self._parts(rows))
        except ELEMENT_ERRORS:
            if not made:
                self._use(rows)
                self._begin()
            raise
        self._places.append((self._held.start, self._row))
        self._use(rows)
        return batch

    def _parts(self, rows: int) -> list[Part]:
        parts, start = [], self._row
        for batch, count in zip(self._held.elements, self._counts, strict=False):
            stop = min(start + rows, count)
            if start < stop:
                parts.append((batch, start, stop))
                rows -= stop - start
            start = max(start - count, 0)
            if not rows:
                break
        return parts

    def _use(self, rows: int) -> None:
        self._ready -= rows
        row, whole, counts = self._row + rows, 0, self._counts
        while whole < len(counts) and counts[whole] <= row:
            row -= counts[whole]
            whole += 1
        self._held.use(whole)
        del counts[:whole]
        self._row = row

    def _rest(self) -> list[Element]:
        """Return the last, short batch, if there is one and it is wanted."""
        if self._ready > 0 and not self._drop:
            return [self._cut(self._ready, made=False)]
        self._use(self._ready)
        self._begin()
        return []

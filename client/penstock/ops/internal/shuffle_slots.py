"""The slots of a shuffle: their elements, and which slot each pick empties.

Pick j empties a slot that follows from the seed and j alone. When the input has ended with N
elements, N - j of them are left at pick j. The pick empties one of the first N - j slots, and the
element in the last of these moves there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine import draws
from penstock.engine.rows import Block, Rows, Table, elements_of, same

PICKS = 1024
"""How many picks are drawn at once."""


def picks(
    seed: int, start: int, stop: int, size: int, total: int | None = None
) -> NDArray[np.int64]:
    """Return which slots picks *start* to *stop* empty."""
    bits = draws.draw(seed, start, stop)
    if total is None:
        return draws.below(bits, size)
    left = np.minimum(total - np.arange(start, stop), size)
    return draws.below(bits, left.astype(np.uint64))


class SlotColumn:
    """The elements in the slots, or their row numbers while all are rows of one table.

    It holds rows only of a table that is in memory anyway.
    """

    def __init__(self) -> None:
        self._table: Table | None = None
        """The table of the row numbers; None while the values are elements."""
        self._values: NDArray[Any] = np.empty(0, object)
        self._blank = True
        """Whether no slot has a value yet, so that the values may become rows."""
        self._left: list[Any] | None = None
        """The values, once elements only leave: a list is faster then."""
        self.size = 0
        """How many slots are filled, from the first one on."""

    def reserve(self, size: int) -> None:
        """Make *size* slots with arbitrary values; the caller must `put` each before reading it."""
        self._values, self.size = np.empty(size, object), size

    def append(self, block: Block) -> None:
        """Fill new slots after the filled ones."""
        start, stop = self.size, self.size + len(block)
        fresh = self._taken(block)
        if stop > len(self._values):
            grown = np.empty(max(stop, 2 * start), self._values.dtype)
            grown[:start] = self._values[:start]
            self._values = grown
        self._values[start:stop] = fresh
        self.size = stop

    def arrange(self, slots: NDArray[np.int64]) -> None:
        """Move the values of the filled slots, one after the other, to *slots*."""
        self._values[slots] = self._values[: self.size].copy()

    def put(self, slots: Sequence[int], block: Block) -> None:
        """Fill *slots*, which are all different."""
        self._values[slots] = self._taken(block)

    def exchange(self, draw: SlotDraw, block: Block) -> Block:
        """Take the elements out of the drawn slots, and put those of *block* there, one by one."""
        fresh = self._taken(block)
        values = self._values
        out = values[draw.slots]
        out[draw.again] = fresh[draw.before]
        values[draw.slots] = fresh  # if a slot occurs twice, the last value stays
        return self._given(out)

    def drain(self, slots: Sequence[int]) -> Block:
        """Empty *slots* one after the other; each time, the last slot's element moves there."""
        left = self._left
        if left is None:
            left = self._left = self._values[: self.size].tolist()
        out = []
        for slot in slots:
            out.append(left[slot])
            left[slot] = left[-1]
            left.pop()
        self.size = len(left)
        return out if self._table is None else Rows(self._table, np.array(out, np.int64))

    def block(self) -> Block:
        """Return the elements in the filled slots."""
        left = self._values[: self.size].copy() if self._left is None else self._left
        if self._table is not None:
            return Rows(self._table, np.array(left, np.int64))
        return left.tolist() if isinstance(left, np.ndarray) else [*left]

    def _taken(self, block: Block) -> NDArray[Any]:
        """Return *block* as values of the same kind as those here; these may change kind for it."""
        table = self._table
        if isinstance(block, Rows) and block.table.kept:
            if self._blank:
                table = self._table = block.table
                self._values = np.zeros(self.size, np.int64)
            if table is not None and same(table, block.table):
                self._blank = False
                return block.numbers()
        if table is not None:
            values = _objects(table.elements(self._values[: self.size]))
            self._table, self._values = None, values
        self._blank = False
        return _objects(elements_of(block))

    def _given(self, values: NDArray[Any]) -> Block:
        return values.tolist() if self._table is None else Rows(self._table, values)


def _objects(elements: list[Element]) -> NDArray[Any]:
    """Return an array of objects with one item for each element, also if an element is an array."""
    return np.fromiter(elements, object, len(elements))


@dataclass(frozen=True, slots=True)
class SlotDraw:
    """The *slots* of some picks. At the indices *again*, the pick *before* refilled the slot."""

    slots: NDArray[np.int64]
    again: NDArray[np.int64]
    before: NDArray[np.int64]


class ShuffleSlots:
    """The slots just before pick *n*; *total* is the length of the input, once it has ended."""

    def __init__(self, seed: int, size: int, n: int, total: int | None = None) -> None:
        self.seed, self.size, self.n, self.total = seed, size, n, total
        self._drawn = np.empty(0, np.int64)
        """The slots of the next picks."""
        self._short = np.uint16 if size <= 1 << 16 else np.int64  # which sorts fast

    def end(self, total: int) -> None:
        """Record that the input has ended with *total* elements."""
        self.total, self._drawn = total, self._drawn[:0]

    def exchange(self, n: int) -> SlotDraw:
        """Make the next *n* picks, each of which is followed by a new element."""
        slots = self._draw(n)
        order = np.argsort(slots.astype(self._short), kind="stable")
        ordered = slots[order]
        again = np.flatnonzero(ordered[1:] == ordered[:-1])
        return SlotDraw(slots, order[again + 1], order[again])

    def drain(self, n: int, left: int) -> list[int]:
        """Make up to *n* picks after the end of the input; *left* elements are left."""
        slots: list[int] = self._draw(min(n, left)).tolist()
        return slots

    def _draw(self, n: int) -> NDArray[np.int64]:
        if n > len(self._drawn):
            start = self.n + len(self._drawn)
            stop = self.n + max(PICKS, n)
            if self.total is not None:
                stop = min(stop, self.total)
            more = picks(self.seed, start, stop, self.size, self.total)
            self._drawn = np.concatenate([self._drawn, more])
        drawn, self._drawn = self._drawn[:n], self._drawn[n:]
        self.n += n
        return drawn

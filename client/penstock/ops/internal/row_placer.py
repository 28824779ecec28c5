"""Where results go of calls that processes make, when `batch` follows: into the batch's memory.

What is to be stacked is known when it has been seen: the first results come as elements, and say
how batches lie in memory. From then on each call is told its rows. Where what it gives is not like
the first the results come as elements again, and the layout is that of the newest.

An element that fails leaves no result: those behind it are one row further ahead in their batch
than was thought. Calls that are under way keep their rows (`batch` copies these together), and
what is placed next stands where its batch begins.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.element import Element
from penstock.engine.rows import Block, Rows
from penstock.executors.batch_memory import BatchMemory, PlacedRows, Room
from penstock.frames.row_layout import RowLayout

log = logging.getLogger("penstock.map")

LEAST_NBYTES = 1 << 14
"""Batches that are smaller are copied in less time than it takes to place them."""

FIRST_ROWS, FIRST_PLACES = 1024, 2
"""For how many elements there are places at first, and how many places more; twice as many where
more calls are under way."""

MOST_PLACES = 1 << 16

MOST_LAYOUTS = 8
"""How often the layout may change before this is given up: elements differ."""


class RowPlacer:
    """Places results of calls in batches of *size*. For one thread at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places = FIRST_ROWS // size + FIRST_PLACES
        self._number = 0
        """How many results came, or will if no call fails, since a batch began."""
        self._layout: tuple[RowLayout, Element] | None = None
        self._layouts = 0
        self._memory: BatchMemory | None = None
        self._rows: PlacedRows | None = None
        """Where the next result goes, unless a batch begins with it."""

    def rooms(self, calls: int) -> list[Room]:
        """Return where the next so many results go, in order; none, if they come as elements."""
        number = self._number
        self._number += calls
        if self._memory is None:
            return []
        if self._memory.stale:
            self._begin_memory()
        rooms = []
        while calls and self._memory is not None:
            row = number % self._size
            if self._rows is None or not row:
                self._rows = self._memory.place()
            if self._rows is None:  # so many are under way
                self._places *= 2
                self._begin_memory()
                return []
            count = min(calls, self._size - row)
            rooms.append(Room(self._rows, row, count))
            number += count
            calls -= count
        return rooms

    def learn(self, made: Sequence[Block], failed: int, rooms: Sequence[Room]) -> None:
        """Note what became of calls that were to go to *rooms*; *failed* of them gave nothing."""
        if failed:
            self._number -= failed
            self._rows = None
        if any(isinstance(part, Rows) for part in made) or self._layouts > MOST_LAYOUTS:
            return
        unfit = self._layout is None or (rooms and rooms[0].rows.memory is self._memory)
        elements = [element for part in made for element in part if element is not None]
        if unfit and elements:
            self._settle(elements[-1])

    def pass_over(self, inputs: int) -> None:
        """Note that so many are skipped, as if they had been made."""
        self._number += inputs
        self._rows = None

    def close(self) -> None:
        """Let go of all memory but for what others look at. Idempotent."""
        self._rows = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _settle(self, element: Element) -> None:
        """Have batches of elements like this one, if they can be."""
        self._layouts += 1
        layout = RowLayout.of(element, self._size)
        self._layout = None
        if layout is not None and layout.nbytes >= LEAST_NBYTES and self._layouts <= MOST_LAYOUTS:
            self._layout = layout, element
        self._begin_memory()

    def _begin_memory(self) -> None:
        self.close()
        if self._layout is None or self._places > MOST_PLACES:
            return
        try:
            self._memory = BatchMemory(*self._layout, self._places)
        except OSError as exc:
            self._layouts = MOST_LAYOUTS + 1
            log.info("results of processes are copied into batches, not written there: %s", exc)

"""Places results of calls in other processes straight into the memory of the `batch` that follows.

The layout of a batch is known after the first results: they come as elements, and define it. From
then on, each call is told its rows. If a result does not fit the layout, results come as elements
again, and the newest one defines the layout.

An element that fails leaves no result, so the elements after it belong one row earlier in their
batch. Calls in flight keep their rows, and `batch` copies these together. The next rows are placed
from the start of their batch.
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
"""Smaller batches (in bytes) are copied in less time than placing them takes."""

FIRST_ROWS, FIRST_PLACES = 1024, 2
"""The number of elements that have places at first, and the number of places. Both double if more
calls are in flight."""

MOST_PLACES = 1 << 16

MOST_LAYOUTS = 8
"""How often the layout may change before placing stops, because elements differ."""


class RowPlacer:
    """Places results of calls in batches of *size*. For one thread at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places = FIRST_ROWS // size + FIRST_PLACES
        self._number = 0
        """How many results the current batch has, counting calls in flight as successful."""
        self._layout: tuple[RowLayout, Element] | None = None
        self._layouts = 0
        self._memory: BatchMemory | None = None
        self._rows: PlacedRows | None = None
        """The rows that the next result goes into, unless it begins a batch."""

    def rooms(self, calls: int) -> list[Room]:
        """Return the places of the next *calls* results; none if they come as elements."""
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
            if self._rows is None:  # all places are in use
                self._places *= 2
                self._begin_memory()
                return []
            count = min(calls, self._size - row)
            rooms.append(Room(self._rows, row, count))
            number += count
            calls -= count
        return rooms

    def learn(self, made: Sequence[Block], failed: int, rooms: Sequence[Room]) -> None:
        """Record the results of calls that had the places *rooms*; *failed* of them failed."""
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
        """Count *inputs* skipped inputs as if their results had been made."""
        self._number += inputs
        self._rows = None

    def close(self) -> None:
        """Release all memory that nobody else views. Idempotent."""
        self._rows = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _settle(self, element: Element) -> None:
        """Use the layout of batches of elements like this one, if there can be one."""
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

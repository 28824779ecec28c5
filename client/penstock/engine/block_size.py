"""How many elements to ask of an input at once, so that a block takes about a given time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.element import Element
from penstock.engine.iterator import OpIterator
from penstock.engine.rows import Block

B = TypeVar("B", bound=Block)

MOST = 1 << 16
"""Elements that are asked for at once at the most."""


MAX_BLOCK = 4096
BLOCK_SECONDS = 0.002
"""About how long making one block may take: slow pipelines work element by element."""


class BlockSizer:
    """Sizes blocks to take about *seconds* seconds: one element at first, more while it is fast.

    Between two blocks, an operator can be closed, or pass on its elements. No block has more than
    *most* elements.
    """

    __slots__ = ("_clock", "_most", "_seconds", "n", "seconds")

    def __init__(
        self,
        seconds: float = BLOCK_SECONDS,
        most: int = MOST,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self.n = 1
        """How many elements the next block should have."""
        self.seconds = 0.0
        """The seconds that the next block is expected to take."""

    def learn(self, seconds: float, count: int, most: int = MOST) -> None:
        """Record that *count* elements took *seconds*; the next block has at most *most*."""
        each = seconds / count
        affordable = int(self._seconds / each) if each > 0 else self._most
        self.n = max(1, min(2 * self.n, affordable, self._most, most))
        self.seconds = each * self.n

    def read(self, source: OpIterator, most: int) -> list[Element]:
        """Read a block of at most *most* elements."""
        return self._read(source.block, most)

    def read_rows(self, source: OpIterator, most: int) -> Block:
        """Read a block of at most *most* elements, which may be rows."""
        return self._read(source.rows, most)

    def _read(self, read: Callable[[int], B], most: int) -> B:
        limit = min(self.n, most)
        began = self._clock()
        block = read(limit)
        seconds = self._clock() - began
        if seconds > self._seconds or (limit == self.n and block):
            # Even if few came: the size also grows for a filter that drops most elements.
            self.learn(seconds, limit)
        return block

"""How many elements to ask of an input at once, so that a block takes about a given time."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.element import Element
from penstock.engine.iterator import OpIterator

MOST = 1 << 16
"""Elements that are asked for at once at the most."""


MAX_BLOCK = 256
BLOCK_SECONDS = 0.002
"""About how long making one block may take: slow pipelines work element by element."""


class BlockSizer:
    """Reads blocks that take about `BLOCK_SECONDS`: one element at first, more while it is fast.

    Between two blocks an operator can be closed, or hand on what it has.
    """

    __slots__ = ("_clock", "_n")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._n = 1

    def read(self, source: OpIterator, most: int) -> list[Element]:
        """Read a block of at most *most* elements."""
        wish = min(self._n, most)
        began = self._clock()
        block = source.block(wish)
        seconds = self._clock() - began
        if seconds > BLOCK_SECONDS:
            self._n = max(1, int(wish * BLOCK_SECONDS / seconds))
        elif wish == self._n and block:
            # However few there were: a filter that drops most is asked for more at once, too.
            self._n = min(2 * self._n, MOST)
        return block

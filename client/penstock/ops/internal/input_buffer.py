"""Input that an operator buffers for several outputs, and the states of all positions in it.

State of a position: ``[the input's state just before it, errors]``. *errors* counts the failed
elements after the position that were raised before the state was taken. An operator opened at the
state skips them.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.engine.rows import Block, joined
from penstock.errors import Closed
from penstock.graph.node import Node


class InputBuffer:
    """The input of `batch`, `rebatch`, `window`: the elements read and not yet used up.

    Elements are numbered from the first one read on; `elements` are those from `start` on. With
    *rows* they may be rows.
    """

    def __init__(self, context: Context, node: Node, state: State, *, rows: bool = False) -> None:
        below, known = state or (None, 0)
        self._known: int = known
        """How many errors are still to be skipped, because an earlier run raised them."""
        self.input = context.open(node, below)
        pace = BlockSizer()
        self._read: Callable[[OpIterator, int], Block] = pace.read_rows if rows else pace.read
        self._closed = False
        self.elements: Block = []
        self.start = 0
        self._blocks: list[tuple[int, Mark]] = [(0, self.input.mark())]
        """For each block of input: the number of its last element plus 1, and its mark."""
        self._failed: list[int] = []
        """For each error that was raised: the number of the element after it."""

    @property
    def stop(self) -> int:
        """The number of the last element, plus 1."""
        return self.start + len(self.elements)

    @property
    def has_failed(self) -> bool:
        """Whether errors lie among the elements, so that to skip is not to count."""
        return bool(self._known or self._failed)

    def pull(self, n: int) -> bool:
        """Read some elements more, at most *n*; return False at the end."""
        while True:
            if self._closed:
                raise Closed("this iterator was closed while it read its input")
            try:
                block = self._read(self.input, n)
            except ELEMENT_ERRORS:
                self._blocks.append((self.stop, self.input.mark()))
                if self.passes(self.stop):
                    continue
                raise
            self.elements = joined(self.elements, block)
            self._blocks.append((self.stop, self.input.mark()))
            return bool(block)

    def passes(self, number: int) -> bool:
        """Record an error before element *number*; return whether an earlier run raised it."""
        self._failed.append(number)
        if not self._known:
            return False
        self._known -= 1
        return True

    def begin(self) -> None:
        """Forget what only the marks of the last output needed."""
        blocks, start = self._blocks, self.start
        if len(blocks) > 1 and blocks[0][0] <= start:
            first = next((i for i, (stop, _) in enumerate(blocks) if stop > start), -1)
            del blocks[:first]
        if self._failed:
            self._failed = [number for number in self._failed if number > start]

    def use(self, n: int) -> None:
        """Drop the first *n* elements."""
        if isinstance(self.elements, list):
            del self.elements[:n]
        else:
            self.elements = self.elements[n:]
        self.start += n
        self._known = 0  # whatever was raised before the first output has been met by now

    def skip(self, n: int) -> int:
        """Skip the next *n* elements, held or not; return how many there were."""
        held = len(self.elements)
        if n <= held:
            self.use(n)
            return n
        self.use(held)
        skipped = self.input.skip(n - held)
        self.start += skipped
        self._blocks = [(self.start, self.input.mark())]
        return held + skipped

    def mark(self) -> Callable[[int], list[State]]:
        """Return the function that gives the state before element *number*."""
        blocks, failed, known = tuple(self._blocks), tuple(self._failed), self._known

        def at(number: int) -> list[State]:
            errors = known + sum(after > number for after in failed)
            for stop, mark in blocks:
                if stop > number:
                    return [mark(stop - number), errors]
            return [blocks[-1][1](0), errors]

        return at

    def close(self) -> None:
        """Close the input; a pull under way ends at its next block."""
        self._closed = True
        self.input.close()

"""Sources that are split by index: what `range`, slices, sequences and files share.

State: ``[next]`` when the source reads everything, ``["@", stream, position, offset]`` when it
draws splits: it stands *offset* units behind the start of the split at *position* of the log, or,
with offset -1, behind that split, which was empty and ended the pass.
"""

from __future__ import annotations

from abc import abstractmethod

from penstock.element import Element
from penstock.engine.context import Context, SplitReader
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.numbers import Split


class UnitsIterator(OpIterator):
    """Elements number 0 to *size* of a source, one a unit; `fetch` makes a run of them."""

    def __init__(self, context: Context, size: int, state: State) -> None:
        self._size = size
        self._splits = context.splits
        self._source = context.path
        self._stream = context.streams.get(context.path, -1)
        self._position = self._offset = 0
        self._split = Split(0, 0)
        if self._splits is None:
            self._split = Split(0, size)
            if state is not None:
                (self._offset,) = state
        elif state is None:
            self._position = self._splits.place(self._source)
        else:
            _, self._stream, self._position, self._offset = state
        self._ended = self._offset < 0
        if self._ended and self._splits is not None:
            self._splits.leave(self._source, self._position)

    @abstractmethod
    def fetch(self, start: int, stop: int) -> list[Element]:
        """Return elements *start* to *stop*."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        start, stop = self._advance(n)
        return self.fetch(start, stop) if start < stop else []

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        left = n
        while left:
            start, stop = self._advance(left)
            if start == stop:
                break
            left -= stop - start
        return n - left

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        offset = self._offset
        if self._splits is None:
            return lambda back: [offset - back]
        stream, position = self._stream, self._position
        return lambda back: ["@", stream, position, offset - back]

    def _advance(self, n: int) -> tuple[int, int]:
        if self._splits is not None and not self._stand(self._splits):
            return 0, 0
        start = self._split.start + self._offset
        # A stream shared in lockstep may be longer than this source: each clips to its own size.
        stop = max(start, min(start + n, self._split.stop, self._size))
        self._offset += stop - start
        return start, stop

    def _stand(self, splits: SplitReader) -> bool:
        """Stand in a split that has units left; say False at the end of the pass."""
        if self._ended:
            return False
        if not self._split:
            self._split = splits.fetch(self._stream, self._position)
        while self._split and self._split.start + self._offset >= min(self._split.stop, self._size):
            self._position, self._offset = self._position + 1, 0
            self._split = splits.fetch(self._stream, self._position)
        if not self._split:
            self._offset, self._ended = -1, True
            splits.leave(self._source, self._position)
        return not self._ended

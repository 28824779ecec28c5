"""A source's position in its units, for sources that are split by index.

State: ``[next]`` if the source reads everything, ``["@", provider, position, offset, drew]`` if it
draws splits. The source is then *offset* units after the start of the split at *position* of the
log. With offset -1, it is after that split, which was empty and ended the pass. *drew* is 1 if the
pass had splits before that position. A source may add to the state.
"""

from __future__ import annotations

from abc import abstractmethod

from penstock.engine.context import Context
from penstock.engine.iterator import Mark, RowsIterator, State
from penstock.engine.rows import Block
from penstock.engine.splits import SourceProgress, SplitReader
from penstock.protocol.splits import Split


class Units:
    """Where a source stands among its units, whether it reads all of them or draws splits.

    *size* is how many units there are, or None where only the splits know. *names* are those of
    the units, if they are files.
    """

    def __init__(
        self, context: Context, size: int | None, state: State, names: tuple[str, ...] = ()
    ) -> None:
        self._size = size
        self._source = context.path
        self._provider = context.providers.get(context.path, -1)
        self._splits = context.splits if context.draws_splits else None
        self._position = self._offset = 0
        self._had_splits = size == 0  # then an empty pass is empty for all tasks
        self.split = Split(0, 0)
        """The split in which it stands; all units when it reads everything."""
        if self._splits is None:
            self._read_all(Split(0, size or 0, names), state)
        else:
            self._draw(self._splits, state)

    def take(self, n: int) -> tuple[int, int]:
        """Advance by up to *n* units; return the first of them, and the last one + 1.

        The two are equal only at the end of the pass. A run never crosses the end of a split.
        """
        if self._splits is not None and not self._stand(self._splits):
            return 0, 0
        start = self.split.start + self._offset
        stop = max(start, min(start + n, self.end))
        self._offset += stop - start
        return start, stop

    def put_back(self, n: int) -> None:
        """Stand *n* units further back, in the run that was taken last."""
        self._offset -= n

    def mark(self) -> Mark:
        """Capture the position; *back* counts units of the run that was taken last."""
        offset = self._offset
        if self._splits is None:
            return lambda back: [offset - back]
        stream, position, drew = self._provider, self._position, int(self._had_splits)
        return lambda back: ["@", stream, position, offset - back, drew]

    def names(self, start: int, stop: int) -> tuple[str, ...]:
        """Return the names of units *start* to *stop*, a run that was taken."""
        return self.split.names[start - self.split.start : stop - self.split.start]

    def following(self) -> str:
        """Return the name of the next unit, if it is in the present split; else nothing."""
        rest = self.split.names[self._offset : self._offset + 1]
        return rest[0] if rest else ""

    def _read_all(self, everything: Split, state: State) -> None:
        self.split = everything
        if state is not None:
            (self._offset,) = state
        if not 0 <= self._offset <= len(everything):
            raise ValueError(f"it stands at {self._offset} of {len(everything)}")

    def _draw(self, splits: SplitReader, state: State) -> None:
        if state is None:
            self._position = splits.enter(self._source, self._provider, self)
        else:
            splits.resume(self._source, self)
            _, self._provider, self._position, self._offset, drew = state
            self._had_splits = self._had_splits or bool(drew) or self._offset > 0
        self._ended = self._offset < 0
        self._note(splits)

    def _stand(self, splits: SplitReader) -> bool:
        """Stand in a split that has units left; return False at the end of the pass."""
        if self._ended:
            return False
        if not self.split:
            self.split = splits.fetch(self._provider, self._position)
        while self.split and self.split.start + self._offset >= self.end:
            self._position, self._offset, self._had_splits = self._position + 1, 0, True
            self.split = splits.fetch(self._provider, self._position)
        if not self.split:
            self._offset, self._ended = -1, True
        self._note(splits)
        return not self._ended

    def _note(self, splits: SplitReader) -> None:
        drew = self._had_splits or bool(self.split)
        splits.record(self._source, self, SourceProgress(self._position, drew, self._ended))

    @property
    def end(self) -> int:
        """The unit after the last of this split."""
        # A stream shared in lockstep may be longer than this source: each clips to its own size.
        return self.split.stop if self._size is None else min(self.split.stop, self._size)


class UnitsIterator(RowsIterator):
    """Elements number 0 to *size* of a source, one a unit; `fetch` makes a run of them."""

    def __init__(
        self, context: Context, size: int | None, state: State, names: tuple[str, ...] = ()
    ) -> None:
        self.units = Units(context, size, state, names)

    @abstractmethod
    def fetch(self, start: int, stop: int) -> tuple[Block, Exception | None]:
        """Return elements *start* to *stop*; or those before one that failed, and its error."""

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if self._due is not None:
            self._raise()
        start, stop = self.units.take(n)
        if start == stop:
            return []
        try:
            out, failed = self.fetch(start, stop)
        except BaseException:
            self.units.put_back(stop - start)
            raise
        if failed is not None:
            self.units.put_back(stop - start - len(out))
            self._due = failed
            del failed  # or the error would keep this frame, and with it the iterator, forever
            if not out:
                self._raise()
        return out

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        left = n
        if left and self._due is not None:
            self._due = None
            self.units.take(1)
        while left:
            start, stop = self.units.take(left)
            if start == stop:
                break
            left -= stop - start
        return n - left

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        return self.units.mark()

    def _raise(self) -> None:
        self.units.take(1)
        self._raise_due()

"""Which rows of which new chunks the receipts have named: what becomes a chunk of the dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from penstock.element import text_array
from penstock.engine.rows import Block, Rows


class RowRun(msgspec.Struct, array_like=True):
    """Rows *start* to *stop* of a new chunk, whose receipts were taken."""

    chunk: int
    start: int
    stop: int
    told: bytes = b""
    """What the receipt of the chunk's last row told; empty if it was not taken."""

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the chunk."""
        return self.start == 0 and bool(self.told)


def runs_of(receipts: Block) -> Iterator[RowRun]:
    """Yield the runs that are in *receipts*, in their order.

    >>> list(runs_of([(7, 0, b""), (7, 1, b"{}"), (9, 2, b"")]))
    [RowRun(chunk=7, start=0, stop=2, told=b'{}'), RowRun(chunk=9, start=2, stop=3, told=b'')]
    """
    stacked = receipts.hand_over() if isinstance(receipts, Rows) else zip(*receipts, strict=True)
    chunks, rows, told = stacked
    chunks, rows, told = np.asarray(chunks), np.asarray(rows), text_array(told)
    follows = (chunks[1:] == chunks[:-1]) & (rows[1:] == rows[:-1] + 1) & (told[:-1] == b"")
    ends = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(rows)]
    for start, stop in pairwise(ends):
        first = int(rows[start])
        yield RowRun(int(chunks[start]), first, first + stop - start, told[stop - 1])


class TakenRows:
    """Collects receipts into runs.

    A run ends at the last row of its chunk. If the elements are *ordered*, it also ends when a row
    of another chunk follows: an attempt was lost, and the next one wrote the elements again.

    >>> taken = TakenRows(ordered=True)
    >>> for run in runs_of([(7, 0, b""), (7, 1, b""), (9, 2, b""), (9, 3, b"{}")]):
    ...     taken.take(run)
    >>> taken.ended()
    [RowRun(chunk=7, start=0, stop=2, told=b''), RowRun(chunk=9, start=2, stop=4, told=b'{}')]
    """

    def __init__(self, *, ordered: bool, going_on: Sequence[RowRun] = ()) -> None:
        self._ordered = ordered
        self._open = {run.chunk: run for run in going_on}
        self._ended: list[RowRun] = []

    def take(self, new: RowRun) -> None:
        """Take the receipts of the rows in *new*."""
        run = self._run(new.chunk, new.start)
        run.stop = new.stop
        if new.told:
            run.told = new.told
            self._end(run)

    @property
    def has_ended(self) -> bool:
        """Whether `ended` returns runs now."""
        return bool(self._ended)

    def _run(self, chunk: int, row: int) -> RowRun:
        """Return the run that *row* of *chunk* continues, or a new one."""
        run = self._open.get(chunk)
        if self._ordered:
            for other in [other for other in self._open.values() if other is not run]:
                self._end(other)
        if run is not None and run.stop != row:
            self._end(run)
            run = None
        return run or self._open.setdefault(chunk, RowRun(chunk, row, row))

    def _end(self, run: RowRun) -> None:
        del self._open[run.chunk]
        self._ended.append(run)

    def ended(self) -> list[RowRun]:
        """Return the runs that have ended since the last call, in the order of their elements."""
        ended, self._ended = self._ended, []
        return ended

    def going_on(self) -> list[RowRun]:
        """Return the runs that have not ended."""
        return list(self._open.values())

    def end_all(self) -> None:
        """End all runs: no receipt follows."""
        for run in self.going_on():
            self._end(run)

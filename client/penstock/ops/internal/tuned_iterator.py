"""An operator whose number of threads is found as it runs. State: its own."""

from __future__ import annotations

from collections.abc import Callable

from penstock.autotune.meter import Meter
from penstock.engine.iterator import CallLog, Mark, OpIterator, RowsIterator
from penstock.engine.rows import Block


class TunedIterator(RowsIterator):
    """The elements of *run*; *resize* is told how many threads *meter* wants."""

    def __init__(self, run: OpIterator, resize: Callable[[int], None], meter: Meter) -> None:
        self._run, self._resize, self._meter = run, resize, meter

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        block: Block = []
        self._meter.enter()
        try:
            block = self._run.rows(n)
        finally:
            if self._meter.leave(len(block)):
                self._resize(self._meter.threads)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        return self._run.mark()

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        return self._run.skip(n)

    def expect_batches(self, size: int) -> None:
        """See `OpIterator.expect_batches`."""
        self._run.expect_batches(size)

    def report_calls(self, log: CallLog) -> None:
        """See `OpIterator.report_calls`."""
        self._run.report_calls(log)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._run.close()
        self._meter.close()

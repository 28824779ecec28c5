"""An operator whose number of threads is found as it runs. State: its own."""

from __future__ import annotations

from collections.abc import Callable

from penstock.autotune.meter import Meter
from penstock.element import Element
from penstock.engine.iterator import Mark, OpIterator


class TunedIterator(OpIterator):
    """The elements of *run*; *resize* is told how many threads *meter* wants."""

    def __init__(self, run: OpIterator, resize: Callable[[int], None], meter: Meter) -> None:
        self._run, self._resize, self._meter = run, resize, meter

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        block: list[Element] = []
        self._meter.enter()
        try:
            block = self._run.block(n)
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

    def report_calls(self, add: Callable[[float], None]) -> None:
        """See `OpIterator.report_calls`."""
        self._run.report_calls(add)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._run.close()
        self._meter.close()

"""`BlockReader`: reads a dataset block by block, for loops of Penstock itself."""

from __future__ import annotations

import time

from penstock.dataset.iterator import DatasetIterator
from penstock.engine.rows import Block
from penstock.errors import PenstockError
from penstock.runtime.tracebacks import keep_users_frames


class BlockReader(DatasetIterator):
    """An iterator that also gives all elements at once that come at once."""

    def block(self) -> Block:
        """Return the next elements, which may be rows; none at the end."""
        try:
            left: Block = [*self._active]
            return left or self._in_turn(self._next_rows)
        except PenstockError as exc:
            keep_users_frames(exc)
            raise

    @property
    def waits(self) -> bool:
        """Whether `block` would wait for workers."""
        reading = self._reading
        return reading is not None and reading.waits

    def _next_rows(self) -> Block:
        reading, began = self._check_open(), time.perf_counter()
        self._clock.ask(began)
        try:
            block = reading.block(self._sizer.n)
        except BaseException:
            self._clock.gave_up(time.perf_counter())
            raise
        if self._closed:  # meanwhile, by another thread
            reading.close()
            self._check_open()
        until = time.perf_counter()
        if not len(block):
            self._clock.end(until)
            return block
        self._clock.got(until, len(block))
        self._sizer.learn(until - began, len(block))
        return block

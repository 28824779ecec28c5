"""An operator that calls a function for the elements of its input, in the thread that asks."""

from __future__ import annotations

from penstock.engine.iterator import Mark, OneInputIterator, OpIterator
from penstock.engine.rows import Block


class OneToOneIterator(OneInputIterator):
    """Element k of the output is made of that of the input.

    State: ``[elements so far, the input's state]``; the first is the number for errors.
    """

    def __init__(self, upstream: OpIterator, number: int) -> None:
        self._upstream, self._number = upstream, number
        self._inputs: Block = []
        """Elements of the input's last block for which the function was not called yet."""

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, left, below = self._number, len(self._inputs), self._upstream.mark()
        return lambda back: [number - back, below(left + back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Calls nothing."""
        if n and self._due is not None:
            self._due = None
            self._pass_over()
        held = min(n, len(self._inputs))
        self._inputs = self._inputs[held:]
        more = self._upstream.skip(n - held) if n > held else 0
        self._number += held + more
        return held + more

    def _raise(self) -> None:
        self._pass_over()
        self._raise_due()

    def _pass_over(self) -> None:
        """Move the position after the first of `_inputs`, which failed."""
        self._number += 1
        self._inputs = self._inputs[1:]

"""The contract of a running operator: blocks out, and a state at any element of the last block.

Rule 1. `block(n)` gives 1 to n elements; an empty list is the end, and stays the end. A block may
        be short for the operator's own reasons: a split ended, an inner dataset ended.
Rule 2. `mark()` captures the position of the last block. It returns a function of *back*,
        0 <= back <= length of the last block. That function returns the state just before the
        last *back* elements of the block (0: after all of it). A mark stays true whatever the
        operator does afterwards, so it captures values, never the operator itself. Before the
        first block only 0 is valid.
Rule 3. A state is plain JSON, small, and its size depends on the pipeline only. None is the
        start. Opening a node at a state continues as if nothing had happened.
Rule 4. Output depends on input alone, not on block sizes or timing.
Rule 5. An error belongs to its element. The elements before it are returned first, as a short
        block; the next call raises; the call after that continues as if the failed element did
        not exist. After a raise, marks are valid at 0 only, and stand after the failed element.

So an operator that needs k input elements asks for at most k. It works on one block of input at a
time, or keeps the marks of the blocks whose elements it still keeps. No state is made per element,
and yet a state is exact to the element.

    state            ──▶ an operator opened at it gives the same tail;
    mark()(back)     ──▶ state before the last *back* elements of the last block;
    skip(n)          ──▶ as block(n), but drops the elements: 1:1 operators call nothing;
    rows(n)          ──▶ as block(n), for callers that accept rows (`penstock.engine.rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.rows import Block, elements_of
from penstock.errors import ElementError, MissingFile, TransformError

State: TypeAlias = Any
"""Plain JSON: None, numbers, text, lists, dicts with text keys."""

Mark: TypeAlias = Callable[[int], State]

ByNumber: TypeAlias = Callable[[NDArray[np.int64]], tuple[Block, TransformError | None]]
"""Makes the elements with these numbers; if one fails, the elements before it and its error."""

B = TypeVar("B", bound=Block)

ELEMENT_ERRORS = (TransformError, ElementError, MissingFile)
"""The errors that belong to one element (rule 5); others say that the run itself is in trouble."""


class CallLog(Protocol):
    """Records calls that an operator's own threads make; see `engine.op_times.OpTime`."""

    def begin_call(self) -> None:
        """Record that this thread is in a call from now on."""

    def end_call(self, seconds: float, cpu: float) -> None:
        """Record that this thread's call has ended: its *seconds*, and *cpu* of processor time."""


class OpIterator(ABC):
    """One operator at work."""

    _due: Exception | None = None
    """The error to raise after the last block (rule 5)."""

    def _raise_due(self) -> None:
        """Raise that error, if there is one: once."""
        failed, self._due = self._due, None
        try:
            if failed is not None:
                raise failed
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    @abstractmethod
    def block(self, n: int) -> list[Element]:
        """Return the next 1 to *n* elements, or an empty list when there are no more."""

    def rows(self, n: int) -> Block:
        """Do as `block`, but return elements that were not made yet as rows.

        Calls of `rows` and `block` may alternate.
        """
        return self.block(n)

    @abstractmethod
    def mark(self) -> Mark:
        """Capture the last block's position in the stream (rule 2)."""

    def skip(self, n: int) -> int:
        """Skip up to *n* elements; return how many there were. Fewer means the end.

        Elements that fail are skipped silently and do not count. After a skip, marks are valid at
        0 only, as before a first block.
        """
        left = n
        while left:
            try:
                block = self.block(left)
            except ELEMENT_ERRORS:
                continue
            if not block:
                break
            left -= len(block)
        return n - left

    def expect_batches(self, size: int) -> None:  # noqa: B027  most make no rows
        """Announce that the caller of `rows` will stack each run of *size* elements from now on."""

    def report_calls(self, log: CallLog) -> None:  # noqa: B027  most have none
        """Report each call that a thread of this operator makes to *log*."""

    def close(self) -> None:  # noqa: B027  sources may hold nothing
        """Release threads, files and inputs. Idempotent; the operator is not used afterwards.

        If another thread waits inside `block`, it is woken, and may get any error.
        """


class RowsIterator(OpIterator):
    """An operator that makes rows, or passes them on."""

    @abstractmethod
    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        return elements_of(self.rows(n))


class OneInputIterator(OpIterator):
    """An operator that has nothing to close but its input."""

    _upstream: OpIterator

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._upstream.close()


class ChoosingIterator(OneInputIterator, RowsIterator):
    """An operator that gives some elements of its only input, as rows if they come as rows."""


class CallingIterator(OneInputIterator):
    """An operator that calls a function for the elements of its input, in the thread that asks."""

    def __init__(self, upstream: OpIterator, number: int) -> None:
        self._upstream, self._number = upstream, number
        """The number is that of the input's next element, for errors and random numbers."""
        self._inputs: Block = []
        """Elements of the input's last block for which the function was not called yet."""

    def _raise(self) -> None:
        """Raise the error of the first of `_inputs`."""
        self._pass_over()
        self._raise_due()

    def _pass_over(self) -> None:
        """Move the position after the first of `_inputs`, which failed."""
        self._number += 1
        self._inputs = self._inputs[1:]


class OneToOneIterator(CallingIterator):
    """An operator whose element k is made of its input's element k.

    State: ``[elements so far, the input's state]``.
    """

    def made(
        self,
        n: int,
        read: Callable[[int], B],
        call: Callable[[B, int], tuple[B, TransformError | None]],
    ) -> B:
        """Return the results of *call* for up to *n* inputs; *read* reads the next ones."""
        if self._due is not None:
            self._raise()
        block: Any = self._inputs or read(n)
        out, self._due = call(block[:n], self._number)
        self._number += len(out)
        self._inputs = block[len(out) :]
        if self._due is not None and not out:
            self._raise()
        return out

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

"""`flat_map`: the elements of datasets made from elements, one dataset after the other.

State: ``[the outer state, number, 1 if open, the dataset's state]``. The outer state is that
before element *number*, whose dataset is open or comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import Closed, DatasetError, StateError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node, function
from penstock.ops.internal.inner_dataset import OpenInner


@dataclass(frozen=True, eq=False)
class FlatMap(Node):
    """The elements of the datasets that *fn* makes, one dataset after the other."""

    op: ClassVar[str] = "flat_map"
    splits_elements: ClassVar[bool] = True
    upstream: Node
    fn: Callable[..., Any] = function()

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DatasetError(f"flat_map: map_func must be callable, not {self.fn!r}")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        call = UserFunction(self.fn, self.label, context.seed())
        below = state[0] if state else None
        open_inner = OpenInner(call, context, self.label)
        return _FlatMapIterator(context.open(self.upstream, below), open_inner, state)


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements of a block that are from one dataset: *count*, and the position after them."""

    count: int
    outer: Mark
    left: int
    """How many elements of the outer block there were, from the dataset's own on."""
    number: int
    inner: Mark

    def state(self, back: int) -> State:
        """Return the state before the last *back* of them."""
        return [self.outer(self.left), self.number, 1, self.inner(back)]


class _FlatMapIterator(OpIterator):
    def __init__(self, outer: OpIterator, open_inner: OpenInner, state: State) -> None:
        _, number, resuming, begin = state or (None, 0, 0, None)
        self._outer, self._open = outer, open_inner
        self._number: int = number
        """The number of the element whose dataset is open, or comes next."""
        self._resuming, self._begin = bool(resuming), begin
        """Whether that dataset was open at the state, and where it stood."""
        self._elements: deque[Element] = deque()
        """The rest of the outer dataset's last block, from element `_number` on."""
        self._mark = outer.mark()
        self._inner: OpIterator | None = None
        self._runs: list[_Run] = []
        """The runs of elements in the last block, dataset by dataset."""
        self._wish = 1
        """How many datasets a block takes, and so how many outer elements to read at once."""
        self._closed = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._runs = []
        if self._due is not None:
            self._raise_due()
        out: list[Element] = []
        try:
            while len(out) < n and (inner := self._current()) is not None:
                block = self._read_inner(inner, n - len(out))
                if block:
                    out += block
                    left, number = len(self._elements), self._number
                    self._runs.append(_Run(len(block), self._mark, left, number, inner.mark()))
                else:
                    self._next()
        except ELEMENT_ERRORS as exc:
            if not out:
                raise
            self._due = exc
        self._wish = max(1, len(self._runs))
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        runs = tuple(self._runs)
        place = self._place() if self._due is None else None

        def at(back: int) -> State:
            if not back and place is not None:
                return place(0)
            for run in reversed(runs):
                if back <= run.count:
                    return run.state(back)
                back -= run.count
            raise IndexError(back)

        return at

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Makes the datasets, and skips in them."""
        self._runs, self._due = [], None
        left = n
        while left:
            try:
                inner = self._current()
                if inner is None:
                    break
                left -= inner.skip(left)
                if left:
                    self._next()
            except ELEMENT_ERRORS:
                continue
        return n - left

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        self._outer.close()
        inner = self._inner
        if inner is not None:
            inner.close()

    def _place(self) -> Mark:
        """Capture the position, when no error is waiting."""
        outer, left, number = self._mark, len(self._elements), self._number
        if self._inner is None:
            resuming, begin = int(self._resuming), self._begin
            return lambda _: [outer(left), number, resuming, begin]
        inner = self._inner.mark()
        return lambda _: [outer(left), number, 1, inner(0)]

    def _current(self) -> OpIterator | None:
        """Return the open dataset, or the next one; None at the end of the outer dataset."""
        if self._inner is not None:
            return self._inner
        if not self._elements and not self._read():
            return None
        begin, self._begin, self._resuming = self._begin, None, False
        try:
            self._inner = inner = self._open(self._elements[0], self._number, begin)
        except ELEMENT_ERRORS:
            self._drop()
            raise
        if self._closed:  # by another thread, which did not see this dataset
            inner.close()
        return inner

    def _read_inner(self, inner: OpIterator, n: int) -> list[Element]:
        try:
            return inner.block(n)
        except ELEMENT_ERRORS as exc:
            located = self._open.located(exc, self._number)
        try:
            raise located
        finally:
            del located  # or the error would keep this frame, and with it the iterator, forever

    def _read(self) -> bool:
        """Read outer elements; return False at the end."""
        if self._closed:
            raise Closed("this iterator was closed while it looked for a dataset with elements")
        try:
            self._elements.extend(self._outer.block(self._wish))
        finally:
            self._mark = self._outer.mark()
        if not self._elements and self._resuming:
            raise StateError(
                f"the outer dataset ends at element {self._number}, but it had more when the state "
                "was taken: give it the data that it had then"
            )
        return bool(self._elements)

    def _next(self) -> None:
        """Leave the dataset that has ended."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()
        self._drop()

    def _drop(self) -> None:
        self._elements.popleft()
        self._number += 1

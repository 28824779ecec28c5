"""`take_while`: the elements up to the first for which a function returns false.

State: ``[calls so far, 1 if that element came, the input's state]``. The input is read element by
element, so that no element after that one is ever made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OneInputIterator, OpIterator, State
from penstock.errors import DatasetError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node, function
from penstock.ops.filter import truth
from penstock.runtime.interrupts import interruptible


@dataclass(frozen=True, eq=False)
class TakeWhile(Node):
    """The elements before the first of which *predicate* is not true."""

    op: ClassVar[str] = "take_while"
    per_task: ClassVar[bool] = True
    upstream: Node
    predicate: Callable[..., Any] = function()

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise DatasetError(f"take_while: predicate must be callable, not {self.predicate!r}")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, ended, below = state or (0, 0, None)
        call = UserFunction(self.predicate, self.label, context.seed())
        return _TakeWhileIterator(context.open(self.upstream, below), call, number, bool(ended))


class _TakeWhileIterator(OneInputIterator):
    def __init__(self, upstream: OpIterator, call: UserFunction, number: int, ended: bool) -> None:
        self._upstream, self._call = upstream, call
        self._number, self._ended = number, ended
        self._places = [self._place()]
        """The position before each element of the last block, and after the last of them."""
        self._failed: tuple[Exception, Mark] | None = None
        """The error to raise after the last block, and the position after the error."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        del self._places[:-1]
        if self._failed is not None:
            self._raise(*self._failed)
        out: list[Element] = []
        while len(out) < n and not self._ended:
            try:
                element = self._next()
            except ELEMENT_ERRORS as exc:
                if not out:
                    self._places = [self._place()]
                    raise
                self._failed = exc, self._place()
                break
            if self._ended:
                self._places[-1] = self._place()
            else:
                out += element
                self._places.append(self._place())
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        places = tuple(self._places)
        return lambda back: places[-1 - back](0)

    def _place(self) -> Mark:
        number, ended, below = self._number, int(self._ended), self._upstream.mark()
        return lambda _: [number, ended, below(0)]

    def _next(self) -> list[Element]:
        """Read an element and call the predicate; return no element at the end."""
        block = self._upstream.block(1)
        if not block:
            self._ended = True
            return block
        number = self._number
        self._number += 1
        answer = self._call(block[0], number)
        try:
            self._ended = not interruptible(truth, answer)
        except DatasetError as exc:
            self._call.fail(exc, number, block[0])
        return block

    def _raise(self, failed: Exception, behind: Mark) -> NoReturn:
        self._failed, self._places = None, [behind]
        try:
            raise failed
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

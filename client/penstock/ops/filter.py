"""`filter`: the elements for which a function returns true; `take_while`: those before a no.

State of `filter`: ``[calls so far, the input's state]``, as for `map`. State of `take_while`:
``[calls so far, 1 if the first no came, the input's state]``. `take_while` reads its input element
by element, so that no element after the first no is ever made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar, NoReturn

import numpy as np

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import (
    ELEMENT_ERRORS,
    CallingIterator,
    Mark,
    OneInputIterator,
    OpIterator,
    State,
)
from penstock.errors import DatasetError
from penstock.executors.function import UserFunction, transform_error
from penstock.graph.node import Node, function
from penstock.runtime.interrupts import interruptible


@dataclass(frozen=True, eq=False)
class Filter(Node):
    """The elements of which *predicate* is true."""

    op: ClassVar[str] = "filter"
    upstream: Node
    predicate: Callable[..., Any] = function()

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise DatasetError(f"filter: predicate must be callable, not {self.predicate!r}")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, below = state or (0, None)
        call = UserFunction(self.predicate, self.label, context.seed())
        return _FilterIterator(context.open(self.upstream, below), call, self.label, number)


_BOOLS = {bool, np.bool_}


class _FilterIterator(CallingIterator):
    def __init__(self, upstream: OpIterator, call: UserFunction, label: str, number: int) -> None:
        super().__init__(upstream, number)
        self._call, self._label = call, label
        self._kept: list[int] = []
        """The numbers of the last block's elements."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        while True:
            if self._due is not None:
                self._raise()
            self._inputs = self._inputs or self._upstream.block(n)
            if not self._inputs:
                return []
            if out := self._decide(n):
                return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`.

        The position before a kept element is right before it: the function is not called again for
        elements that were dropped before it.
        """
        number, left, kept = self._number, len(self._inputs), self._kept
        below = self._upstream.mark()

        def at(back: int) -> State:
            place = kept[-back] if back else number
            return [place, below(left + number - place)]

        return at

    def _decide(self, n: int) -> list[Element]:
        """Return those of the next *n* inputs that are kept, up to the first error."""
        block, first = self._inputs[:n], self._number
        answers, self._due = self._call.answers(block, first)
        if not set(map(type, answers)) <= _BOOLS:
            answers = self._up_to_error(answers)
        self._kept = list(compress(range(first, first + len(answers)), answers))
        self._number += len(answers)
        self._inputs = self._inputs[len(answers) :]
        return list(compress(block, answers))

    def _up_to_error(self, answers: list[Any]) -> list[bool]:
        """Return the answers as bools, up to the first that is none: then its error is noted."""
        out: list[bool] = []
        for answer in answers:
            try:
                out.append(interruptible(truth, answer))
            except DatasetError as exc:
                element = self._inputs[len(out)]
                self._due = transform_error(self._label, self._number + len(out), exc, element)
                break
        return out


def truth(answer: Any) -> bool:
    """Return what a predicate answered: a bool, or an array or the like of just one.

    Raises:
        DatasetError: when it is anything else.
    """
    if type(answer) in _BOOLS or _is_bool(answer):
        return bool(answer)
    raise DatasetError(
        f"the predicate must return one bool, not {type(answer).__name__} "
        f"{str(answer)[:60]!r}; for arrays, use .any() or .all()"
    )


def _is_bool(answer: Any) -> bool:
    """Return whether *answer* is an array, or like one, of one bool and without dimensions."""
    if not hasattr(answer, "__array__"):
        return False
    array = np.asarray(answer)
    return array.dtype == np.bool_ and array.ndim == 0


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

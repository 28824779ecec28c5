"""`filter`: the elements for which a function returns true.

State: ``[calls so far, the input's state]``, as for `map`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import CallingIterator, Mark, OpIterator, State
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

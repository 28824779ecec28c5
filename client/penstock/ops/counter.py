"""`counter`: numbers without end. State: ``[how many so far]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.graph.node import INFINITE, Node
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Counter(Node):
    """The int64 scalars from *start* on, *step* apart."""

    op: ClassVar[str] = "counter"
    start: int
    step: int

    def __post_init__(self) -> None:
        for name in ("start", "step"):
            value = check_count("counter", name, getattr(self, name), least=-(2**63))
            object.__setattr__(self, name, value)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return INFINITE

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        return _CounterIterator(self, state[0] if state else 0)


class _CounterIterator(OpIterator):
    def __init__(self, node: Counter, number: int) -> None:
        self._start, self._step, self._number = node.start, node.step, number

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Behind the largest int64 comes the smallest."""
        first = self._start + self._number * self._step
        self._number += n
        low = np.uint64(first & (2**64 - 1))
        with np.errstate(over="ignore"):
            run = low + np.arange(n, dtype=np.uint64) * np.uint64(self._step & (2**64 - 1))
        return list(run.view(np.int64))

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number = self._number
        return lambda back: [number - back]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        self._number += n
        return n

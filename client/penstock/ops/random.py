"""`random`: random numbers without end. State: ``[how many so far]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.element import Element
from penstock.engine import draws
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.graph.node import INFINITE, Node
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Random(Node):
    """Random int64 scalars from 0 to below 2**32."""

    op: ClassVar[str] = "random"
    seed: int | None
    rerandomize: bool

    def __post_init__(self) -> None:
        if self.seed is not None:
            seed = check_count("random", "seed", self.seed, least=-(2**63), most=None)
            object.__setattr__(self, "seed", seed)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return INFINITE

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        seed = context.seed(self.seed, every_pass=self.rerandomize)
        return _RandomIterator(seed, state[0] if state else 0)


class _RandomIterator(OpIterator):
    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Number k is a function of the seed and k."""
        bits = draws.draw(self._seed, self._number, self._number + n)
        self._number += n
        return list((bits >> np.uint64(32)).astype(np.int64))

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number = self._number
        return lambda back: [number - back]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        self._number += n
        return n

"""`random`: random numbers without end. State: see `penstock.ops.internal.unit_cursor`.

Number k is a function of the seed and k, so tasks that divide the numbers draw them of one
sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.element import Element
from penstock.engine import draws
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.graph.node import INFINITE, Node
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.options import check_count
from penstock.protocol.definition import ENDLESS
from penstock.protocol.types import SourceSlice


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

    @property
    def numbers(self) -> range:
        """Which numbers of the sequence there are."""
        return range(ENDLESS)

    def units(self) -> int:
        """See `Node.units`."""
        return len(self.numbers)

    def part(self, cut: SourceSlice) -> Random:
        """See `Node.part`."""
        endless = self.cardinality == INFINITE and cut.stop is None
        return _RandomPart(self.seed, self.rerandomize, cut.of(self.numbers), endless)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        seed = context.seed(self.seed, every_pass=self.rerandomize)
        return _RandomIterator(context, seed, self.numbers, state)


@dataclass(frozen=True, eq=False)
class _RandomPart(Random):
    """Some of the numbers of a sequence."""

    numbers: range = range(0)
    endless: bool = False

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return INFINITE if self.endless else len(self.numbers)


class _RandomIterator(UnitsIterator):
    def __init__(self, context: Context, seed: int, numbers: range, state: State) -> None:
        super().__init__(context, len(numbers), state)
        self._seed, self._numbers = seed, numbers

    def fetch(self, start: int, stop: int) -> tuple[list[Element], None]:
        """See `UnitsIterator.fetch`. Number k is a function of the seed and k."""
        which = self._numbers[start:stop]
        numbers = np.arange(which.start, which.stop, which.step, dtype=np.uint64)
        bits = draws.numbered(self._seed, numbers)
        return list((bits >> np.uint64(32)).astype(np.int64)), None

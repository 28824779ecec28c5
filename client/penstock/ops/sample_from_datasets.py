"""`sample_from_datasets`: elements of several datasets, of a random one each time.

Which dataset gives element *j* follows from the seed and j. State: see
`penstock.ops.internal.selection`; the selector's is ``[elements so far]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.engine import draws
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.normalise import as_array
from penstock.ops.internal.selection import DirectedIterator, check_datasets, joint_cardinality
from penstock.options import check_count

DRAWN = 256
"""How many turns are drawn at once."""


@dataclass(frozen=True, eq=False)
class SampleFromDatasets(Node):
    """Elements of *upstreams*, of each with the probability of its weight."""

    op: ClassVar[str] = "sample_from_datasets"
    per_task: ClassVar[bool] = True
    upstreams: tuple[Node, ...]
    weights: tuple[float, ...] | None
    seed: int | None
    stop: bool
    rerandomize: bool

    def __post_init__(self) -> None:
        check_datasets(self.op, self.upstreams)
        if self.seed is not None:
            seed = check_count(self.op, "seed", self.seed, least=-(2**63), most=None)
            object.__setattr__(self, "seed", seed)
        weights = _weights(self.weights, len(self.upstreams))
        object.__setattr__(self, "weights", weights)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return joint_cardinality(self.upstreams, stop=self.stop)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        count = len(self.upstreams)
        (number,), ended, below = state or ([0], [0] * count, [None] * count)
        seed = context.seed(self.seed, every_pass=self.rerandomize)
        inputs = [
            context.open(node, place, branch=i)
            for i, (node, place) in enumerate(zip(self.upstreams, below, strict=True))
        ]
        chance = _Chance(self.weights or (), seed, number)
        # A dataset that is never drawn from has nothing to give.
        over = [bool(o) or not w for o, w in zip(ended, self.weights or (), strict=True)]
        return DirectedIterator(chance, inputs, over, stop=self.stop)


class _Chance:
    """A `Director` that draws."""

    def __init__(self, weights: tuple[float, ...], seed: int, number: int) -> None:
        self._weights, self._seed = np.array(weights), seed
        self._number = number
        self._drawn: list[float] = []
        """Random numbers from 0 to 1, of the turns from `_number` on; the next one last."""
        self._live: tuple[bool, ...] = ()
        self._bounds = np.empty(0)

    def turn(self, live: Sequence[bool]) -> int:
        """See `Director.turn`. Only datasets that are live are drawn."""
        if tuple(live) != self._live:
            self._live = tuple(live)
            shares = np.where(live, self._weights, 0.0)
            self._bounds = np.cumsum(shares / shares.sum())
        if not self._drawn:
            bits = draws.draw(self._seed, self._number, self._number + DRAWN)
            self._drawn = ((bits >> np.uint64(11)) * 2.0**-53)[::-1].tolist()
        place = int(np.searchsorted(self._bounds, self._drawn[-1], side="right"))
        return min(place, max(i for i, alive in enumerate(live) if alive))

    def done(self) -> None:
        """See `Director.done`."""
        self._drawn.pop()
        self._number += 1

    def can_go_on(self) -> bool:
        """See `Director.can_go_on`."""
        return True

    def mark(self) -> Callable[[int], State]:
        """See `Director.mark`."""
        number = self._number
        return lambda back: [number - back]

    def close(self) -> None:
        """See `Director.close`."""


def _weights(given: Any, count: int) -> tuple[float, ...]:
    """Return *count* weights; equal ones if none are given.

    Raises:
        DatasetError: when they are not that many, negative, not finite, or all zero.
    """
    if given is None:
        return (1.0,) * count
    try:
        weights = tuple(float(weight) for weight in as_array(given).tolist())
    except (TypeError, ValueError) as exc:
        raise DatasetError(f"sample_from_datasets: weights must be numbers, not {given!r}") from exc
    if len(weights) != count:
        raise DatasetError(
            f"sample_from_datasets: there are {count} datasets and {len(weights)} weights"
        )
    if not all(np.isfinite(weights)) or min(weights) < 0 or sum(weights) <= 0:
        raise DatasetError(
            "sample_from_datasets: weights must be numbers of at least 0 that sum to more than 0, "
            f"not {given!r}"
        )
    return weights

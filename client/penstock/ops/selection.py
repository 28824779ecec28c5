"""`sample_from_datasets` and `choose_from_datasets`: a selector says which dataset is next.

State: ``[the selector's state, which datasets have ended, each dataset's state]``. The state of a
choice is that of the indices; under dynamic sharding every task reads all indices. The state of a
sample is ``[elements so far]``: which dataset gives element *j* follows from the seed and j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from penstock.element import Element, describe
from penstock.engine import draws
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DatasetError, ElementError
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.normalise import as_array
from penstock.options import check_count

AHEAD = 64
"""The most elements of a dataset to read at once, if the caller wants that many in all."""


class Director(Protocol):
    """Says which dataset gives the next element."""

    def begin(self) -> None:
        """Begin a block: marks go back to here."""

    def turn(self, live: Sequence[bool]) -> int | None:
        """Return whose turn it is; None at the end. Repeated calls return the same, until `done`.

        If it is the turn of a dataset that is not *live*, the turn is skipped.
        """

    def done(self, size: int = 1) -> None:
        """End this turn; *size* is that of the element that it took."""

    def can_go_on(self) -> bool:
        """Return whether the next turn is known; finding it out may move the position of marks."""

    def mark(self) -> Callable[[int], State]:
        """Capture the position; *back* counts turns, as far back as `can_go_on` was true."""

    def close(self) -> None:
        """Close everything."""


class DirectedIterator(OpIterator):
    """Elements of *inputs*, one at a time, as *director* says.

    With *stop* the first dataset that ends where its turn comes is the end of all. *measure*
    returns the size of an element, for directors that need it.
    """

    def __init__(
        self,
        director: Director,
        inputs: list[OpIterator],
        ended: list[bool],
        *,
        stop: bool,
        measure: Callable[[Element], int] | None = None,
    ) -> None:
        self._director, self._inputs, self._stop = director, inputs, stop
        self._measure = measure
        self._live = [not over for over in ended]
        self._held: list[list[Element]] = [[] for _ in inputs]
        """The elements of each input's last block that were not returned yet."""
        self._last: list[int] = []
        """Which input gave each element of the last block."""
        self._turns: list[int] = []
        """How many turns each of these elements took, with skipped turns of ended datasets."""
        self._spare = 0
        """How many turns were skipped since then."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Ends where something must be read again whose mark it needs."""
        self._last, self._turns, self._spare = [], [], 0
        self._director.begin()
        out: list[Element] = []
        while len(out) < n and any(self._live):
            if not self._director.can_go_on():
                if out:
                    break
                self._spare = 0  # the position has moved: nothing before it is of any use
            turn = self._turn(out)
            if turn is None or not self._give(turn, n, out):
                break
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        director, last, turns, spare = self._director.mark(), self._last, self._turns, self._spare
        places = [(x.mark(), len(h)) for x, h in zip(self._inputs, self._held, strict=True)]
        ended = [int(not live) for live in self._live]

        def at(back: int) -> State:
            behind = last[len(last) - back :]
            below = [mark(held + behind.count(i)) for i, (mark, held) in enumerate(places)]
            passed = sum(turns[len(turns) - back :]) + spare if back else 0
            return [director(passed), ended, below]

        return at

    def is_over(self) -> bool:
        """Return whether everything ends before the elements that an input has just given."""
        return False

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._director.close()
        for upstream in self._inputs:
            upstream.close()

    def _turn(self, out: list[Element]) -> int | None:
        """Return whose turn it is; None where this block, or everything, ends."""
        try:
            return self._director.turn(self._live)
        except ELEMENT_ERRORS:
            if out:
                return None  # it is raised again, behind these
            self._director.done()
            raise

    def _give(self, turn: int, n: int, out: list[Element]) -> bool:
        """Append the element of this turn, if there is one; return False where the block ends."""
        if self._live[turn]:
            if not self._held[turn]:
                if out:
                    return False
                self._held[turn] = self._inputs[turn].block(min(n, AHEAD))
                if self.is_over():
                    self._held, self._live = [[] for _ in self._live], [False] * len(self._live)
                    return False
            if not self._held[turn]:
                self._live[turn] = False
                if self._stop:
                    self._live = [False] * len(self._live)
                return True  # who is next in its place, the director says
            try:
                size = 1 if self._measure is None else self._measure(self._held[turn][0])
            except ELEMENT_ERRORS:
                if out:
                    return False  # it is raised again, behind these
                del self._held[turn][0]
                raise
            out.append(self._held[turn].pop(0))
            self._last.append(turn)
            self._turns.append(self._spare + 1)
            self._spare = 0
            self._director.done(size)
        else:
            self._spare += 1
            self._director.done()
        return True


def _check_datasets(op: str, nodes: Sequence[Any]) -> None:
    if not nodes:
        raise DatasetError(f"{op}: datasets must not be empty")


def _opened(
    context: Context, nodes: Sequence[Node], states: Sequence[State], first: int
) -> list[OpIterator]:
    """Open *nodes*, the inputs from number *first* on, at *states*."""
    pairs = zip(nodes, states, strict=True)
    return [context.open(*pair, branch=i) for i, pair in enumerate(pairs, first)]


def joint_cardinality(nodes: Sequence[Node], *, stop: bool) -> int:
    """Return how many elements directed reading of *nodes* gives, as far as it can be known."""
    sizes = [node.cardinality for node in nodes]
    if stop:
        return INFINITE if all(size == INFINITE for size in sizes) else UNKNOWN
    if INFINITE in sizes:
        return INFINITE
    return UNKNOWN if UNKNOWN in sizes else sum(sizes)


@dataclass(frozen=True, eq=False)
class ChooseFromDatasets(Node):
    """Elements of *upstreams*, in the order of the numbers of *choices*."""

    op: ClassVar[str] = "choose_from_datasets"
    per_task: ClassVar[bool] = True
    replicated: ClassVar[int | None] = 0
    choices: Node
    upstreams: tuple[Node, ...]
    stop: bool

    def __post_init__(self) -> None:
        _check_datasets(self.op, self.upstreams)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return 0 if self.choices.cardinality == 0 else UNKNOWN

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        count = len(self.upstreams)
        place, ended, below = state or (None, [0] * count, [None] * count)
        whole = replace(context, splits=None)
        choices = _Choices(whole.open(self.choices, place, branch=0), count)
        inputs = _opened(context, self.upstreams, below, 1)
        return DirectedIterator(choices, inputs, list(map(bool, ended)), stop=self.stop)


class _Choices:
    """A `Director` that reads."""

    def __init__(self, upstream: OpIterator, count: int) -> None:
        self._upstream, self._count = upstream, count
        self._held: list[Element] = []

    def begin(self) -> None:
        """See `Director.begin`."""

    def turn(self, live: Sequence[bool]) -> int | None:  # noqa: ARG002  the choice is made
        """See `Director.turn`."""
        if not self._held:
            self._held = self._upstream.block(256)
        return self._checked(self._held[0]) if self._held else None

    def done(self, size: int = 1) -> None:  # noqa: ARG002  elements count alike
        """See `Director.done`."""
        del self._held[:1]

    def can_go_on(self) -> bool:
        """See `Director.can_go_on`."""
        return bool(self._held)

    def mark(self) -> Callable[[int], State]:
        """See `Director.mark`."""
        below, left = self._upstream.mark(), len(self._held)
        return lambda back: below(left + back)

    def close(self) -> None:
        """See `Director.close`."""
        self._upstream.close()

    def _checked(self, choice: Element) -> int:
        if isinstance(choice, np.integer) and 0 <= choice < self._count:
            return int(choice)
        shown = choice if isinstance(choice, np.integer) else describe(choice)
        raise ElementError(
            f"choose_from_datasets: a choice must be an integer from 0 to {self._count - 1}, "
            f"not {shown}"
        )


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
        _check_datasets(self.op, self.upstreams)
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
        inputs = _opened(context, self.upstreams, below, 0)
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

    def begin(self) -> None:
        """See `Director.begin`."""

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

    def done(self, size: int = 1) -> None:  # noqa: ARG002  elements count alike
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

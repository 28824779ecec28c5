"""`mixture` of datasets that are read from their start: they lack an index, or sizes count.

State: ``[digest of the mixture, the director's state, which datasets have ended, each dataset's
state]``. The director's state is ``[turn, [[turn, dataset that left then], …]]`` if elements count
alike, else ``[turn, how much each dataset is owed]``.

Under dynamic sharding each task mixes the elements of the splits that it drew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import Any, ClassVar

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.engine.tallies import Tally
from penstock.errors import DatasetError, StateError
from penstock.executors.function import transform_error
from penstock.graph.node import INFINITE, UNKNOWN, Node, function
from penstock.ops.repeat import Repeat, RepeatIterator
from penstock.ops.selection import DirectedIterator, Director, joint_cardinality
from penstock.protocol.mixture import WeightStage, without
from penstock.protocol.turns import Turns
from penstock.runtime.interrupts import interruptible

DRAWN = 256
"""How many turns are computed at once."""


@dataclass(frozen=True, eq=False)
class MixedStreams(Node):
    """Elements of *upstreams*, which have *names*; *stages* are the weights, see `WeightStage`.

    *obstacle* says why they are not read by an index.
    """

    op: ClassVar[str] = "mixed_streams"
    per_task: ClassVar[bool] = True
    upstreams: tuple[Node, ...]
    names: tuple[str, ...]
    stages: tuple[tuple[int, tuple[int, ...]], ...]
    stop: str
    seed: int
    unit: str
    obstacle: str
    length: Callable[..., Any] | None = function(default=None)

    @property
    def label(self) -> str:
        """See `Node.label`."""
        return "mixture"

    @property
    def used(self) -> list[int]:
        """The numbers of the datasets that have a weight at some turn."""
        return [s for s in range(len(self.names)) if any(parts[s] for _, parts in self.stages)]

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        nodes = [self.upstreams[s] for s in self.used]
        if self.stop == "all":
            endless = (isinstance(node, Repeat) and node.upstream.cardinality for node in nodes)
            return INFINITE if INFINITE in endless else UNKNOWN
        return joint_cardinality(nodes, stop=self.stop == "first")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        count = len(self.upstreams)
        parts = self.names, self.stages, self.stop, self.seed, self.unit
        digest = blake2b(repr(parts).encode(), digest_size=6).hexdigest()
        taken, place, ended, below = state or (digest, None, [0] * count, [None] * count)
        if taken != digest:
            raise StateError(
                "mixture: the state was saved with other names, weights, stop, seed or unit, and "
                f"the datasets are now {', '.join(map(repr, self.names))}: give the mixture those "
                "that it had then, or begin again"
            )
        stages = tuple(WeightStage(*each) for each in self.stages)
        inputs = [
            context.open(node, at, branch=i)
            for i, (node, at) in enumerate(zip(self.upstreams, below, strict=True))
        ]
        director: Director = (
            _ByPattern(stages, self.seed, place)
            if self.length is None
            else _ByDeficit(stages, place)
        )
        over, tally = [bool(each) for each in ended], context.tally(self.label, self.unit)
        return _MixedIterator(self, digest, director, inputs, over, tally)


class _MixedIterator(DirectedIterator):
    """The elements of a mixture; *tally* counts what each dataset gave, in the mixture's unit."""

    def __init__(
        self,
        node: MixedStreams,
        digest: str,
        director: Director,
        inputs: list[OpIterator],
        ended: list[bool],
        tally: Tally,
    ) -> None:
        measure = None if node.length is None else self._size_of
        super().__init__(director, inputs, ended, stop=node.stop == "first", measure=measure)
        self._node, self._tally = node, tally
        self._sizes: list[int] = []
        """The sizes of the elements of the last block, if sizes count."""
        self._digest, self._all = digest, node.stop == "all"
        self._used = node.used

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._sizes = []
        out = super().block(n)
        given: dict[int, int] = {}
        for source, size in zip(self._last, self._sizes or repeat(1)):  # noqa: B905  endless
            given[source] = given.get(source, 0) + size
        for source, total in given.items():
            self._tally.add_part(self._node.names[source], total)
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        digest, below = self._digest, super().mark()
        return lambda back: [digest, *below(back)]

    def is_over(self) -> bool:
        """See `DirectedIterator.is_over`."""
        if not self._all:
            return False
        runs = [self._inputs[s] for s in self._used]
        return all(isinstance(run, RepeatIterator) and run.number > 0 for run in runs)

    def _size_of(self, element: Element) -> int:
        assert self._node.length is not None  # noqa: S101  or nothing is measured
        size = _measured(self._node.length, element)
        self._sizes.append(size)
        return size


def _measured(measure: Callable[..., Any], element: Element) -> int:
    """Return the length of *element*, as the user's function says."""
    try:
        length = interruptible(measure, element)
        if isinstance(length, bool) or not hasattr(length, "__index__") or int(length) < 0:
            raise DatasetError(  # noqa: TRY301  it is the error of this element
                f"mixture: length must return an integer of at least 0, not {length!r}"
            )
        return int(length)
    except Exception as exc:
        raise transform_error("mixture(length)", 0, exc, element) from exc


class _ByPattern:
    """A `Director` by whose turn it is, with those that have ended left out."""

    def __init__(self, stages: tuple[WeightStage, ...], seed: int, state: State) -> None:
        self._stages, self._seed = stages, seed
        turn, left = state or (0, [])
        self._turn: int = turn
        self._left: list[list[int]] = [list(each) for each in left]
        """When datasets left, and which."""
        self._ahead: list[int] = []
        """Whose turns the next ones are, last first."""
        self._turns = self._made()

    def begin(self) -> None:
        """See `Director.begin`."""

    def turn(self, live: Sequence[bool]) -> int | None:
        """See `Director.turn`."""
        gone = {source for _, source in self._left}
        ended = [s for s, alive in enumerate(live) if not alive and s not in gone]
        if ended:
            self._left += [[self._turn, source] for source in ended]
            self._turns, self._ahead = self._made(), []
        if not self._ahead:
            self._ahead = self._turns.sources(self._turn, self._turn + DRAWN).tolist()[::-1]
        return self._ahead[-1] if self._ahead else None

    def done(self, size: int = 1) -> None:  # noqa: ARG002  elements count alike
        """See `Director.done`."""
        self._ahead.pop()
        self._turn += 1

    def can_go_on(self) -> bool:
        """See `Director.can_go_on`."""
        return True

    def mark(self) -> Callable[[int], State]:
        """See `Director.mark`. Datasets leave before the first element of a block only."""
        turn, left = self._turn, [list(each) for each in self._left]
        return lambda back: [turn - back, left]

    def close(self) -> None:
        """See `Director.close`."""

    def _made(self) -> Turns:
        stages = self._stages
        for turn, source in self._left:
            stages = without(stages, source, turn)
        return Turns(stages, (None,) * len(stages[0].parts), seed=self._seed)


class _ByDeficit:
    """A `Director` by who is owed most: its share of the sizes of all, less the sizes it gave."""

    def __init__(self, stages: tuple[WeightStage, ...], state: State) -> None:
        self._stages = stages
        turn, owed = state or (0, [0] * len(stages[0].parts))
        self._turn: int = turn
        self._owed: list[int] = list(owed)
        """In parts of the sum of `_parts`."""
        self._parts: list[int] = []
        """The weights of those that have not ended."""
        self._last: int | None = None
        """Whose turn it is."""
        self._before: list[State] = []
        """The states before each element of this block."""

    def begin(self) -> None:
        """See `Director.begin`."""
        self._before = []

    def turn(self, live: Sequence[bool]) -> int | None:
        """See `Director.turn`. Of those that are owed equally much, the first."""
        parts = self._shared(live)
        if parts != self._parts:
            self._owed = _scaled(self._owed, self._parts, parts)
            self._parts = parts
        able = [s for s, part in enumerate(parts) if part]
        self._last = max(able, key=lambda s: (self._owed[s], -s), default=None)
        return self._last

    def done(self, size: int = 1) -> None:
        """See `Director.done`. Without size it counts as 1, or its source would stay owed most."""
        size = max(1, size)
        self._before.append([self._turn, self._owed])
        total = size * sum(self._parts)
        self._owed = [
            owed + size * part - total * (s == self._last)
            for s, (owed, part) in enumerate(zip(self._owed, self._parts, strict=True))
        ]
        self._turn += 1

    def can_go_on(self) -> bool:
        """See `Director.can_go_on`."""
        return True

    def mark(self) -> Callable[[int], State]:
        """See `Director.mark`."""
        states = [*self._before, [self._turn, self._owed]]
        return lambda back: states[len(states) - 1 - back]

    def close(self) -> None:
        """See `Director.close`."""

    def _shared(self, live: Sequence[bool]) -> list[int]:
        """Return the weights now of those that are *live*."""
        number = bisect_right(self._stages, self._turn, key=lambda stage: stage.begin)
        parts = self._stages[number - 1].parts
        return [part if alive else 0 for part, alive in zip(parts, live, strict=True)]


def _scaled(owed: list[int], before: list[int], parts: list[int]) -> list[int]:
    """Return what is *owed* in parts of the sum of *parts*, and not of those *before*."""
    old, new = sum(before), sum(parts)
    if not old:
        return owed
    return [each * new // old if part else 0 for each, part in zip(owed, parts, strict=True)]

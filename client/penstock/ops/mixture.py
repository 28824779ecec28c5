"""`mixture`: each turn takes the next element of one of several datasets, in fixed shares.

The turns are those of `penstock.protocol.mixture`. Under dynamic sharding a task draws turns, and
opens each input at the first element that these turns take: see `penstock.ops.internal.stretch`.

State: ``[digest of the mixture, the place among the turns]``, as in
`penstock.ops.internal.unit_cursor`. If an input drops elements after its index (`filter`), turns
are taken a fixed number at a time, and the place is where these begin. The number of elements and
errors since then follows, and a restored state makes these elements again.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import StateError
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.graph.traversal import check_extent, options_of
from penstock.ops.internal.mixed_input import MixedInput
from penstock.ops.internal.stretch import index_in, is_indexed
from penstock.ops.internal.unit_cursor import Units, UnitsIterator
from penstock.options import Options
from penstock.protocol.definition import ENDLESS, MixtureOutline
from penstock.protocol.mixture import WeightStage, decode
from penstock.protocol.turns import Turns, turns_of
from penstock.protocol.types import SourceSlice


@dataclass(frozen=True, eq=False)
class Mixture(Node):
    """Elements of *upstreams*, which have *names*; *stages* are the weights, see `WeightStage`."""

    op: ClassVar[str] = "mixture"
    upstreams: tuple[Node, ...]
    names: tuple[str, ...]
    stages: tuple[tuple[int, tuple[int, ...]], ...]
    stop: str
    max_epochs: tuple[int | None, ...]
    seed: int
    turns_per_task: int

    def __post_init__(self) -> None:
        for node in self.upstreams:
            check_extent(node)

    @property
    def is_exact(self) -> bool:
        """Whether each turn gives one element: no input drops any after its index."""
        return all(map(is_indexed, self.upstreams))

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """How many elements the index of each input has; None is without end."""
        found = (index_in(node).cardinality for node in self.upstreams)
        return tuple(None if size == INFINITE else size for size in found)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        if not self.is_exact:
            return UNKNOWN
        length = self.turns().length
        return INFINITE if length is None else length

    @property
    def left(self) -> range | None:
        """The turns that this source has; None: all."""
        return None

    def turns(self, changes: str = "") -> Turns:
        """Return the turns; *changes* are stages that take the place of its own, as a text."""
        stages = decode(changes) if changes else tuple(WeightStage(*each) for each in self.stages)
        return turns_of(stages, self.sizes, self.stop, self.max_epochs, self.seed)

    @property
    def length(self) -> int:
        """How many turns there are, or `ENDLESS`."""
        length = self.turns().length
        return ENDLESS if length is None else length

    @property
    def outline(self) -> MixtureOutline:
        """What a dispatcher must know to say which source a turn takes."""
        stages = tuple(WeightStage(*each) for each in self.stages)
        cuts = () if self.left is None else (SourceSlice(self.left.start, self.left.stop),)
        rules = (self.stop, self.max_epochs or (), self.seed, cuts)
        return MixtureOutline(self.names, stages, self.sizes, *rules)

    def source(self) -> Node:
        """See `Node.source`."""
        return _MixtureSource(
            self.upstreams,
            self.names,
            self.stages,
            self.stop,
            self.max_epochs,
            self.seed,
            self.turns_per_task,
        )

    @property
    def digest(self) -> str:
        """A short digest of all that decides which element a turn takes."""
        parts = self.names, self.stages, self.sizes, self.stop, self.max_epochs, self.seed
        return blake2b(repr(parts).encode(), digest_size=6).hexdigest()

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        place = None
        if state is not None:
            digest, *place = state
            if digest != self.digest:
                raise StateError(
                    "mixture: the state was saved with other names, weights, sizes of the datasets "
                    f"({', '.join(map(repr, self.names))}), stop, max_epochs or seed, so its turns "
                    "take other elements: give the mixture those that it had then, or begin again"
                )
        return (_ExactIterator if self.is_exact else _DroppingIterator)(self, context, place)


@dataclass(frozen=True, eq=False)
class _MixtureSource(Mixture):
    """Some turns of a mixture, as a source; the nodes below are not divided separately."""

    upstreams: tuple[Node, ...] = field(metadata={"kind": "index"})
    some: range | None = None

    @property
    def left(self) -> range | None:
        """See `Mixture.left`."""
        return self.some

    @property
    def options(self) -> Options:
        """See `Node.options`: those of the nodes below."""
        found = Options()
        for node in self.upstreams:
            found = found.under(options_of(node))
        return found

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return super().cardinality if self.some is None else len(self.some)

    def units(self) -> int:
        """See `Node.units`."""
        return self.length if self.some is None else len(self.some)

    def part(self, cut: SourceSlice) -> Node | None:
        """See `Node.part`. A turn may give no element if inputs drop some."""
        if cut.step != 1 or not self.is_exact:
            return None
        return replace(self, some=cut.of(range(self.length) if self.some is None else self.some))


class _Inputs:
    """The inputs of a mixture, opened for turns that follow each other."""

    def __init__(self, node: Mixture, context: Context) -> None:
        self._node = node
        abouts = zip(node.names, node.upstreams, node.sizes, strict=True)
        self.each = [MixedInput(context, i, *about) for i, about in enumerate(abouts)]
        self.next: tuple[int, int, str] | None = None
        """The turn at which inputs stand, the turn before which they end, and the changes."""
        self._turns = node.turns()

    def sources(self, start: int, stop: int, end: int, changes: str) -> array[int]:
        """Return the numbers of the inputs for turns *start* to *stop*.

        The inputs then stand where turn *start* takes elements. They make none for turns from *end*
        on.
        """
        if self.next != (start, end, changes):
            self._turns = turns = self._node.turns(changes)
            places = zip(self.each, turns.counts(start), turns.counts(end), strict=True)
            for each, first, last in places:
                each.stand(first, last)
        self.next = stop, end, changes
        return self._turns.sources(start, stop)

    def stand_at(self, turn: int) -> None:
        """Record that inputs stand at *turn*, because no later turn has taken an element."""
        if self.next is not None:
            self.next = turn, *self.next[1:]

    def close(self) -> None:
        """Close all; they open again when they are needed."""
        self.next = None
        for each in self.each:
            each.close()


class _ExactIterator(UnitsIterator):
    """Each turn gives one element, or fails."""

    def __init__(self, node: Mixture, context: Context, state: State) -> None:
        self._digest, self._first = node.digest, node.left.start if node.left else 0
        super().__init__(context, _size(node, context), state)
        self._inputs = _Inputs(node, context)

    def fetch(self, start: int, stop: int) -> tuple[list[Element], Exception | None]:
        """See `UnitsIterator.fetch`."""
        start, stop, end = (self._first + unit for unit in (start, stop, self.units.end))
        sources = self._inputs.sources(start, stop, end, _changes(self.units))
        try:
            inputs = self._inputs.each
            counts = np.bincount(np.frombuffer(sources, np.ushort)).tolist()
            wanted = [each for each in zip(inputs, counts, strict=False) if each[1]]
            for each, count in wanted:
                each.fill(count, len(sources))
            if any(len(each.held) < count for each, count in wanted):
                return self._up_to_error(start, sources)
            ahead = [iter(each.held) for each in inputs]
            out = [next(ahead[source]) for source in sources]
            for each, count in wanted:
                del each.held[:count]
        except BaseException:
            self._inputs.close()
            raise
        return out, None

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        digest, place = self._digest, super().mark()
        return lambda back: [digest, *place(back)]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._inputs.close()

    def _up_to_error(
        self, start: int, sources: array[int]
    ) -> tuple[list[Element], Exception | None]:
        """Return the next elements of *sources* up to the first error, and the error."""
        out: list[Element] = []
        for source in sources:
            each = self._inputs.each[source]
            if not each.held:
                self._inputs.stand_at(start + len(out) + 1)
                return out, each.take_error()
            out.append(each.held.pop(0))
        return out, None


class _DroppingIterator(OpIterator):
    """A turn gives one element, fails, or gives none because its input dropped some."""

    def __init__(self, node: Mixture, context: Context, state: State) -> None:
        place: State = None
        self._replayed = 0
        if state is not None:
            *place, self._replayed = state
            if not 0 <= self._replayed <= node.turns_per_task:
                raise ValueError(f"{self._replayed} of {node.turns_per_task} turns were over")
        self._digest, self._most = node.digest, node.turns_per_task
        self._units = Units(context, _size(node, context), place)
        self._inputs = _Inputs(node, context)
        self._sources = array("H")
        """The inputs of the turns that were drawn together, of which `_at` are over."""
        self._at = self._passed = 0
        """With how many elements and errors these began."""
        self._begin = self._end = self._units.mark()(0)
        """The places before and after these turns."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._raise_failed()
        out: list[Element] = []
        while len(out) < n:
            each = self._next(n)
            if each is None:
                if out or not self._draw():
                    break
            elif each.held:
                out.append(each.held.pop(0))
                self._passed += 1
            else:
                self._due = each.take_error()
                if not out:
                    self._raise_failed()
                break
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        over = self._at == len(self._sources) and self._due is None and not self._replayed
        digest, passed = self._digest, self._passed + self._replayed
        begin, end = self._begin, self._end

        def at(back: int) -> State:
            return [digest, *end, 0] if over and not back else [digest, *begin, passed - back]

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._inputs.close()

    def _raise_failed(self) -> None:
        if self._due is not None:
            self._passed += 1
            self._raise_due()

    def _next(self, n: int) -> MixedInput | None:
        """Return the input of the next turn that gives an element or fails; None without one."""
        while self._at < len(self._sources):
            each = self._inputs.each[self._sources[self._at]]
            each.fill(1, min(n, len(self._sources) - self._at))
            self._at += 1
            if each.held or each.error is not None:
                return each
        return None

    def _draw(self) -> bool:
        """Draw the next turns; return False when there are none."""
        start, stop = self._units.take(self._most)
        if over := max(0, stop - (start // self._most + 1) * self._most):
            self._units.put_back(over)  # all runs end at multiples of this
            stop -= over
        place = self._units.mark()
        self._begin, self._end = place(stop - start), place(0)
        self._at = self._passed = 0
        self._sources = self._inputs.sources(start, stop, stop, _changes(self._units))
        while self._replayed and (each := self._next(self._replayed)) is not None:
            if each.held:
                each.held.pop(0)
            else:
                each.take_error()
            self._replayed -= 1
            self._passed += 1
        return start < stop


def _size(node: Mixture, context: Context) -> int | None:
    """Return how many turns there are; None if only the splits tell: changes may make more."""
    if context.draws_splits and node.left is None:
        return None
    return node.length if node.left is None else len(node.left)


def _changes(units: Units) -> str:
    """Return the stages that take the place of the mixture's own in the present split."""
    return "".join(units.split.names)

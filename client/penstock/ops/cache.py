"""`cache`: the elements of the first pass, kept in memory for the others.

State of the pass that fills the cache: ``[0, start, the input's state]``, where *start* is the
input's state at the start of that pass, or None. State of the others: ``[1, start, elements so
far, lineage, turn, path]``; the last three say in which pass the elements were made. A process
that does not have them makes them again, as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias
from weakref import WeakKeyDictionary

from penstock.element import Element, own_nest, read_only
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.graph import Node

_AT_ONCE = 256

Origin: TypeAlias = tuple[int, int, str]
"""The lineage, turn and path of the pass in which elements were made."""


@dataclass(frozen=True, eq=False)
class Cache(Node):
    """The elements of *upstream*, made once."""

    op: ClassVar[str] = "cache"
    one_to_one: ClassVar[bool] = True
    upstream: Node

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return self.upstream.cardinality

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        kept = _kept.get(self) if context.outlasting else None
        if state is None:
            # Only as a run begins: from then on its states must tell all that matters.
            known = context.shared.get(context.path, None if context.turn else kept)
            if isinstance(known, _Store):
                context.shared[context.path] = known
                return _ReplayIterator(known, 0)
            return _FillIterator(self, context, None, None)
        replaying, start, place, *origin = state
        if not replaying:
            return _FillIterator(self, context, start, place)
        lineage, turn, path = origin
        if kept is None or kept.origin != (lineage, turn, path):
            kept = _Store(self, context, (lineage, turn, path), start)
        context.shared[context.path] = kept
        return _ReplayIterator(kept, place)


class _Store:
    """The elements of a pass that has ended, as far as this process has made them.

    Complete it holds nothing but elements; it may then outlast the run and its datasets.
    """

    def __init__(self, node: Cache, context: Context, origin: Origin, start: State) -> None:
        self.origin, self.start = origin, start
        self.elements: list[Element] = []
        self._input: OpIterator | None = None
        self._make: tuple[Cache, Context] | None = (node, context)

    @property
    def complete(self) -> bool:
        """Whether all elements are here."""
        return self._make is None

    def fill(self, elements: list[Element]) -> None:
        """Take *elements* as all there are."""
        node, context = self._make or (None, None)
        self.elements, self._make = elements, None
        if node is not None and context is not None and context.outlasting:
            _kept.setdefault(node, self)

    def read(self, start: int, stop: int) -> list[Element]:
        """Return elements *start* to *stop*, fewer at the end; make what is not there yet."""
        while self._make is not None and len(self.elements) <= start:
            self._make_more(*self._make, min(stop - len(self.elements), _AT_ONCE))
        return list(map(own_nest, self.elements[start:stop]))

    def stop(self) -> None:
        """Stop making elements; if some are missing, all are made again when one is wanted."""
        if self._input is not None:
            self._input.close()
            self._input, self.elements = None, []

    def _make_more(self, node: Cache, context: Context, n: int) -> None:
        if self._input is None:
            lineage, turn, path = self.origin
            made = replace(context, lineage=lineage, turn=turn, path=path)
            self._input = made.open(node.upstream, self.start)
        try:
            block = self._input.block(n)
        except ELEMENT_ERRORS:
            return  # it was raised when the cache was filled for the first time
        self.elements += map(read_only, block)
        if not block:
            self._input.close()
            self._input = None
            self.fill(self.elements)


class _FillIterator(OpIterator):
    """The first pass: it gives what the input gives, and keeps it if it sees all of it."""

    def __init__(self, node: Cache, context: Context, start: State, place: State) -> None:
        self._node, self._context = node, context
        self._upstream = context.open(node.upstream, place)
        # Under splits a pass has a place of its own in the log, which None would not name.
        names_place = place is None and context.splits is not None
        self._start = self._upstream.mark()(0) if names_place else start
        self._elements: list[Element] = []
        self._whole = place is None
        """Whether all elements so far were made here."""
        self._ended = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        block = list(map(read_only, self._upstream.block(n)))
        if not block:
            self._end()
        elif self._whole:
            self._elements += block
            return list(map(own_nest, block))
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        start, below = self._start, self._upstream.mark()
        return lambda back: [0, start, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. What is passed over is not made here; later passes make it."""
        if not n:
            return 0
        self._whole = False
        skipped = self._upstream.skip(n)
        if skipped < n:
            self._end()
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._upstream.close()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        context = self._context
        origin = (context.lineage, context.turn, context.path)
        store = _Store(self._node, context, origin, self._start)
        if self._whole:
            store.fill(self._elements)
        context.shared[context.path] = store


class _ReplayIterator(OpIterator):
    """A later pass: it gives what is in the store."""

    def __init__(self, store: _Store, number: int) -> None:
        self._store, self._number = store, number

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        block = self._store.read(self._number, self._number + n)
        self._number += len(block)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, start, origin = self._number, self._store.start, self._store.origin
        return lambda back: [1, start, number - back, *origin]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if not self._store.complete:
            return super().skip(n)
        skipped = max(0, min(n, len(self._store.elements) - self._number))
        self._number += skipped
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._store.stop()


_kept: WeakKeyDictionary[Node, _Store] = WeakKeyDictionary()
"""Complete caches of earlier runs in this process, for as long as their datasets live."""

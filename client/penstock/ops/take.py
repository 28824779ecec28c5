"""`take`: the first elements; `skip`: the elements after them.

State of `take`: ``[elements so far, the input's state]``. State of `skip`: ``[how many elements are
still to be skipped, the input's state]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, ChoosingIterator, Mark, OpIterator, State
from penstock.engine.rows import Block
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Take(Node):
    """At most *count* elements; -1 is all."""

    op: ClassVar[str] = "take"
    per_task: ClassVar[bool] = True
    upstream: Node
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_count("take", "count", self.count, least=-1))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        below = self.upstream.cardinality
        if self.count == -1 or below == UNKNOWN:
            return below
        return self.count if below == INFINITE else min(self.count, below)

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        return self.upstream.by_number()

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        taken, below = state or (0, None)
        return _TakeIterator(context.open(self.upstream, below), self.count, taken)


class _TakeIterator(ChoosingIterator):
    def __init__(self, upstream: OpIterator, count: int, taken: int) -> None:
        self._upstream, self._count, self._taken = upstream, count, taken

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        wanted = self._wanted(n)
        block = self._upstream.rows(wanted) if wanted else []
        self._taken += len(block)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        taken, below = self._taken, self._upstream.mark()
        return lambda back: [taken - back, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        wanted = self._wanted(n)
        skipped = self._upstream.skip(wanted) if wanted else 0
        self._taken += skipped
        return skipped

    def _wanted(self, n: int) -> int:
        return n if self._count == -1 else max(0, min(n, self._count - self._taken))


_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Skip(Node):
    """The elements after the first *count*; -1 skips all."""

    op: ClassVar[str] = "skip"
    per_task: ClassVar[bool] = True
    upstream: Node
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_count("skip", "count", self.count, least=-1))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        below = self.upstream.cardinality
        if self.count == -1:
            return 0
        return below if below < 0 else max(0, below - self.count)

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        below, count = self.upstream.by_number(), self.count
        return below and (lambda numbers: below(numbers + count))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        left, below = state or (self.count, None)
        return _SkipIterator(context.open(self.upstream, below), left)


class _SkipIterator(ChoosingIterator):
    def __init__(self, upstream: OpIterator, left: int) -> None:
        self._upstream, self._left = upstream, left

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        # Not by `skip`: the user must see the errors of these elements, and a cache below must
        # see the elements.
        while self._left > 0:
            block = self._upstream.rows(min(self._left, _AT_ONCE))
            self._left -= len(block)
            if not block:
                break
        return [] if self._left else self._upstream.rows(n)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        left, below = self._left, self._upstream.mark()
        return lambda back: [left, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if self._left > 0:
            self._left -= self._upstream.skip(self._left)
        return 0 if self._left else self._upstream.skip(n)

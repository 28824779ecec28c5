"""`repeat`: pass after pass over a dataset.

State: ``[pass, 1 if it gave elements, the state of that pass]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.engine.splits import SourceProgress
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import walk
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Repeat(Node):
    """*count* passes over the input; None and -1 are without end."""

    op: ClassVar[str] = "repeat"
    upstream: Node
    count: int | None

    def __post_init__(self) -> None:
        if self.count is not None:
            count = check_count("repeat", "count", self.count, least=-1)
            object.__setattr__(self, "count", None if count == -1 else count)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        below = self.upstream.cardinality
        if 0 in (below, self.count):
            return 0
        if self.count is None:
            return INFINITE
        return below if below < 0 else below * self.count

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return RepeatIterator(self, context, state)


class RepeatIterator(RowsIterator):
    """One pass after another."""

    def __init__(self, node: Repeat, context: Context, state: State) -> None:
        self._node, self._context = node.upstream, context
        self._count = node.count
        self._shared = any(stage.shared for _, stage in walk(node.upstream))
        number, gave, below = state or self._start()
        self._number: int = number
        self._gave = bool(gave)
        self._before: dict[str, SourceProgress] = {}
        """How far the sources were when this pass began."""
        self._closed = False
        self._pass = context.open(node.upstream, below, pass_number=self._number)

    @property
    def number(self) -> int:
        """The number of the pass that the last block is of; 0 is the first."""
        return self._number

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if self._count == 0:
            return []
        while not (block := self._pass.rows(n)):
            if not self._next_pass():
                return []
        self._gave = True
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, gave, below = self._number, int(self._gave), self._pass.mark()
        return lambda back: [number, gave, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        skipped = 0
        while skipped < n and self._count != 0:
            more = self._pass.skip(n - skipped)
            skipped += more
            self._gave = self._gave or more > 0
            if skipped < n and not self._next_pass():
                break
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        self._pass.close()

    def _start(self) -> tuple[int, int, State]:
        """Return the state to begin with: that of the pass in which a job was saved, if one was."""
        sessions = self._context.sessions
        first = None if sessions is None else sessions.first_pass(self._context.path)
        return (0, 0, None) if first is None else (first, 1, None)

    def _next_pass(self) -> bool:
        """Begin the next pass; return False when there is none."""
        last = self._number + 1 == self._count
        if last or (self._count is None and not self._gave and not self._idle()):
            return False
        if self._closed:  # by another thread, which would not see the pass opened now
            return False
        before, over = self._places(), self._pass
        self._pass = self._context.open(self._node, pass_number=self._number + 1)
        self._number, self._gave, self._before = self._number + 1, False, before
        over.close()
        if self._closed:
            self._pass.close()
        return True

    def _idle(self) -> bool:
        """Return whether this pass may be empty because other tasks drew all there was."""
        if self._node.cardinality == 0:
            return False  # no pass ever gives anything, although each draws its splits
        if self._shared:
            return True
        now = self._places()
        return now != self._before and not any(source.had_splits for source in now.values())

    def _places(self) -> dict[str, SourceProgress]:
        splits = self._context.splits
        return splits.passes(self._context.path) if splits is not None else {}

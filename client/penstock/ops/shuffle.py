"""`shuffle`: a buffer; each pick takes out a random element, and the next input element comes in.

Input element j + size fills the slot that pick j empties: `penstock.ops.internal.shuffle_slots`.
So the content of each slot at pick n is a function of the seed, n and the length of the input. No
element need be saved to restore the buffer.

State: ``[n, N or null, position, the input's state there, errors]``. The position is a little
before the oldest element in the buffer. A restore skips elements that are no longer in the buffer.
*errors* is the number of errors that the input raised after the position. If there are any,
skipping might miscount, so the restore reads all elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import Closed, DatasetError, StateError
from penstock.graph.node import Node
from penstock.graph.traversal import walk
from penstock.ops.internal.shuffle_slots import PICKS, ShuffleSlots, SlotColumn, picks
from penstock.ops.internal.tracked_shuffle import (
    TrackedInput,
    TrackedShuffle,
    cuts,
    is_straight,
    keeps_nothing,
)
from penstock.options import check_count

MAX_SCAN = 1 << 20
"""The most picks to examine at once to find out which elements the slots hold."""

GAP = object()
"""In place of an element that failed when it was replayed for a restored buffer."""


@dataclass(frozen=True, eq=False)
class Shuffle(Node):
    """The elements in random order, as far as a buffer of *size* elements allows."""

    op: ClassVar[str] = "shuffle"
    keeps_count: ClassVar[bool] = True
    upstream: Node
    size: int
    seed: int | None
    reshuffle: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count("shuffle", "buffer_size", self.size))
        if self.seed is not None:
            if isinstance(self.seed, bool) or not hasattr(self.seed, "__index__"):
                raise DatasetError(f"shuffle: seed must be an integer or None, not {self.seed!r}")
            object.__setattr__(self, "seed", int(self.seed))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        tracked = context.sessions is not None and any(
            stage.op == "distribute" for _, stage in walk(self.upstream)
        )
        if not tracked or cuts(self.upstream):  # for pieces, the oldest one is enough
            return _ShuffleIterator(self, context, state)
        n, below, *again = state or (0, None)
        seed = context.seed(self.seed, every_pass=self.reshuffle)
        slots, first, held = ShuffleSlots(seed, self.size, n), n, None
        if again:
            first, total = again
            held = contents(seed, self.size, n, total, first)
            if total is not None and n > max(first, total - self.size):  # else its last comes again
                slots.end(total)
        upstream = context.open(self.upstream, below)
        lender = TrackedInput(upstream, straight=is_straight(self.upstream))
        return TrackedShuffle(lender, slots, first, held, alike=keeps_nothing(self.upstream))


MOST_PICKS = 1 << 62
"""No pass is longer."""


def contents(seed: int, size: int, n: int, total: int | None, first: int = 0) -> NDArray[np.int64]:
    """Return which input element is in each slot just before pick *n*.

    *total* is the length of the input, if it has ended. The buffer was empty before pick *first*,
    and the input began with the element of that number.

    Raises:
        ValueError: when there is no such pick.
    """
    whole = type(n) is type(first) is int and (total is None or type(total) is int)
    if not whole or not 0 <= first <= n <= (MOST_PICKS if total is None else total):
        raise ValueError(f"pick {n} of {total} elements from {first} on")
    slots = first + np.arange(size if total is None else min(size, total - first))
    refills = n if total is None else min(n, max(first, total - size))
    stop = refills
    while stop > first and slots.min() < first + size:  # a slot's last refill lies further back
        start = max(first, stop - min(max(size, PICKS), MAX_SCAN))
        np.maximum.at(slots, picks(seed, start, stop, size), np.arange(start, stop) + size)
        stop = start
    if refills == n:
        return slots
    left = slots.tolist()
    for slot in picks(seed, refills, n, size, total).tolist():
        left[slot] = left[-1]
        left.pop()
    return np.array(left, np.int64)


@dataclass(frozen=True, slots=True)
class _Block:
    """Input elements *start* to *stop* of one block; the state before each of them is known."""

    start: int
    stop: int
    mark: Mark
    errors: int
    """How many errors the input raised before them."""


class _Input:
    """The input, with a state from a little before the oldest element that matters."""

    def __init__(self, upstream: OpIterator, place: int, errors: int, apart: int) -> None:
        self.upstream = upstream
        self.read = place
        """The number of the next element."""
        self._errors = self._known = errors
        """How many errors there were, and how many of them are still to be skipped silently."""
        self._apart = apart
        self._closed = False
        self._pace = BlockSizer()
        self._blocks = [_Block(place, place, upstream.mark(), 0)]
        """The kept blocks, about *apart* elements from one to the next."""

    def pull(self, n: int) -> Block:
        """Read up to *n* elements, none at the end."""
        while True:
            if self._closed:
                raise Closed("this iterator was closed while it filled its buffer")
            try:
                block = self._pace.read_rows(self.upstream, n)
            except ELEMENT_ERRORS:
                if not self._known:
                    self._errors += 1
                    raise
                self._known -= 1
                continue
            start, self.read = self.read, self.read + len(block)
            if not block or self.read - self._blocks[-1].stop >= self._apart:
                errors = self._errors - self._known
                self._blocks.append(_Block(start, self.read, self.upstream.mark(), errors))
            return block

    def close(self) -> None:
        """Close the input; the buffer is not filled any more."""
        self._closed = True
        self.upstream.close()

    def pass_to(self, number: int) -> None:
        """Skip the elements before *number*, or the first of them."""
        left = number - self.read
        if not self._known:
            self.read += self.upstream.skip(left)
            return
        try:
            self.pull(left)  # `skip` might count elements that fail
        except ELEMENT_ERRORS:
            self.replace()

    def replace(self) -> None:
        """Count the element that just failed, because it did not fail in the earlier run."""
        self._errors -= 1
        self.read += 1

    def settle(self) -> None:
        """Expect no more of the errors that were raised in an earlier run."""
        self._errors, self._known = self._errors - self._known, 0

    def forget(self, oldest: int) -> None:
        """Keep only the blocks needed to return to element *oldest*."""
        while len(self._blocks) > 1 and self._blocks[1].start <= oldest:
            del self._blocks[0]

    def mark(self, oldest: int) -> Callable[[], list[State]]:
        """Capture the last kept position that is not after element *oldest*."""
        block = next(block for block in reversed(self._blocks) if block.start <= oldest)
        place = min(oldest, block.stop)
        errors = self._errors - block.errors
        return lambda: [place, block.mark(block.stop - place), errors]


class _ShuffleIterator(RowsIterator):
    def __init__(self, node: Shuffle, context: Context, state: State) -> None:
        n, total, place, below, errors = state or (0, None, 0, None, 0)
        seed = context.seed(node.seed, every_pass=node.reshuffle)
        self._slots = ShuffleSlots(seed, node.size, n, total)
        self._content = SlotColumn()
        upstream = context.open(node.upstream, below)
        self._input = _Input(upstream, place, errors, max(1, node.size // 4))
        self._filled = False
        self._missing: list[tuple[int, int]] = []
        """The elements that a restored buffer still lacks, the next one last: number and slot."""
        self._gaps = 0
        """How many slots hold a `GAP`."""
        self._oldest = place
        """No element in the buffer is older."""
        self._looked: int = n
        """The pick at which `_oldest` was found."""
        self._held: NDArray[np.int64] | None = None
        """The numbers of the input elements in the slots at that pick."""
        if n or total is not None:  # else there is nothing to come back to
            self._held = contents(seed, node.size, n, total)
            order = np.argsort(-self._held)
            self._missing = list(zip(self._held[order].tolist(), order.tolist(), strict=True))
            self._content.reserve(len(order))
            self._oldest = min((number for number, _ in self._missing[-1:]), default=n)

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if not self._filled:
            self._fill()
        if not self._gaps:
            return self._picked(n)
        while (out := self._picked(1)) and isinstance(out, list) and out[0] is GAP:
            self._gaps -= 1
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        n, total, below = self._slots.n, self._slots.total, self._input.mark(self._oldest)
        return lambda back: [n - back, total, *below()]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._input.close()

    # --- filling ---

    def _fill(self) -> None:
        """Fill the buffer; after an error, another call continues."""
        while self._missing:
            self._make_again()
        slots, content = self._slots, self._content
        while slots.total is None and content.size < slots.size:
            content.append(self._pull(slots.size - content.size))
        self._filled = True

    def _make_again(self) -> None:
        """Read the next elements that a restored buffer lacks."""
        source, missing = self._input, self._missing
        number, start = missing[-1][0], source.read
        if start < number:
            source.pass_to(number)
            self._check(source.read > start)
            return
        run = 1
        while run < len(missing) and missing[-1 - run][0] == number + run:
            run += 1
        try:
            block = source.pull(run)
        except ELEMENT_ERRORS:
            source.replace()
            self._content.put([missing.pop()[1]], [GAP])
            self._gaps += 1
            raise
        self._check(bool(block))
        self._content.put([missing.pop()[1] for _ in range(len(block))], block)

    def _check(self, more: bool) -> None:
        if not more:
            raise StateError(
                f"shuffle: the input ends at element {self._input.read}, but element "
                f"{self._missing[-1][0]} was in the buffer when the state was taken: give the "
                "dataset the data that it had then"
            )

    def _pull(self, n: int) -> Block:
        block = self._input.pull(n)
        if not block:
            self._slots.end(self._input.read)
        return block

    # --- picking ---

    def _picked(self, n: int) -> Block:
        self._look()
        slots, content = self._slots, self._content
        if slots.total is None:
            fresh = self._pull(n)
            self._input.settle()
            if fresh:
                return content.exchange(slots.exchange(len(fresh)), fresh)
        return content.drain(slots.drain(n, content.size))

    def _look(self) -> None:
        """Find the oldest element in the buffer, if it was last found long ago."""
        slots = self._slots
        if slots.total is not None:
            if not self._content.size:
                self._oldest = slots.total
            return
        looked, size = self._looked, slots.size
        if slots.n - looked < max(size // 8, 16):
            return
        if self._held is None:
            self._held = np.arange(size)
        emptied = picks(slots.seed, looked, slots.n, size)
        np.maximum.at(self._held, emptied, np.arange(looked, slots.n) + size)
        self._oldest, self._looked = int(self._held.min()), slots.n
        self._input.forget(self._oldest)

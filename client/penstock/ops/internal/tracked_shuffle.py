"""`shuffle` over unacked elements: it keeps the delivery tags of each element in its buffer.

State: ``[n, the input's state]`` and the exact unacked tags, see `penstock.engine.unacked`. Opened
at a state, it begins with an empty buffer, because the buffer's elements were requeued and come
again.

If only these elements come again, in the order in which they came, a state may be ``[n, the
input's state, first, N or null]``: the buffer was empty before pick *first*, and the input had N
elements. These numbers say which element was in which slot. So the first element that comes goes
into the slot with the lowest element number, the second into the next, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.block_size import BlockSizer
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.engine.rows import Block, Numbers, Rows, Table, elements_of, same
from penstock.engine.unacked import (
    NOTHING_UNACKED,
    Tags,
    Unacked,
    UnackedBySession,
    joined,
    only_tags,
    straight_run,
    tags_of,
    unacked_exactly,
    unacked_in,
)
from penstock.errors import Closed
from penstock.executors.function import wants_rng
from penstock.graph.node import Node
from penstock.graph.traversal import walk
from penstock.ops.internal.shuffle_slots import PICKS, ShuffleSlots, SlotColumn
from penstock.protocol.ranges import NO_RANGES, RangeSet


def cuts(node: Node) -> bool:
    """Return whether *node* may make several elements of one unacked element."""
    stages = list(walk(node))
    remote = [path for path, stage in stages if stage.op == "distribute"]
    return any(
        stage.splits_elements and any(below.startswith(f"{path}.") for below in remote)
        for path, stage in stages
    )


def is_straight(node: Node) -> bool:
    """Return whether *node* gives one element for each unacked element, in the same order."""
    while node.one_to_one and not node.unordered and node.op != "cache":
        (node,) = node.inputs
    return node.op == "distribute"


def keeps_nothing(node: Node) -> bool:
    """Return whether elements of *node* come out the same if only some of them are made again.

    They must come from one `distribute`, in its order, and depend on no earlier element.
    """
    while node.op in _KEEP_NOTHING and not node.unordered and not _draws(node):
        (node,) = node.inputs
    return node.op == "distribute"


def passes_on(node: Node) -> bool:
    """Return whether elements of one `distribute` pass through without any state to save.

    If so, all readers of a job have the same saved state, at whatever element each of them is.
    """
    while node.op in _PASS_ON:
        (node,) = node.inputs
    return node.op == "distribute"


_PASS_ON = frozenset({"loader", "prefetch", "with_options"})
_KEEP_NOTHING = frozenset({"batch", "filter", "map", "padded_batch", "prefetch", "with_options"})


def _draws(node: Node) -> bool:
    """Return whether a function of *node* gets random numbers, which follow from its count."""
    return any(callable(value) and wants_rng(value) for value in vars(node).values())


class SessionTags(Table):
    """The tags of the elements of one session; row number t has the one delivery tag t."""

    kept = True

    def __init__(self, key: int) -> None:
        self.key = key

    def elements(self, which: Numbers) -> list[Tags]:
        """See `Table.elements`."""
        numbers = which if isinstance(which, range) else which.tolist()
        return [((self.key, tag, tag + 1),) for tag in numbers]

    def stacked(self, which: Numbers) -> Element:
        """See `Table.stacked`. Tags are never stacked."""
        raise NotImplementedError


class TrackedInput:
    """The input of an operator, with the tags that each element was made of."""

    def __init__(self, upstream: OpIterator, *, straight: bool) -> None:
        self.upstream = upstream
        self._straight = straight
        self._pace = BlockSizer()
        self._closed = False
        self._tables: dict[int, SessionTags] = {}
        self._unacked = unacked_in(upstream.mark()(0))
        """The tags that are unacked in the input before its next element."""

    def pull(self, n: int) -> tuple[list[Element], Block]:
        """Read up to *n* elements (none at the end) and the `Tags` of each."""
        if self._closed:
            raise Closed("this iterator was closed while it filled its buffer")
        try:
            block = self._pace.read(self.upstream, n)
        except ELEMENT_ERRORS:
            self._unacked = unacked_in(self.upstream.mark()(0))
            raise
        mark = self.upstream.mark()
        made_of: Block
        if self._straight and (run := straight_run(mark, len(block))):
            key, start, stop = run
            table = self._tables.setdefault(key, SessionTags(key))
            made_of = Rows(table, range(start, stop))
        else:
            made_of = tags_of(self._unacked, mark, len(block))
        self._unacked = unacked_in(mark(0))
        return block, made_of

    def mark(self) -> tuple[UnackedBySession, Callable[[], State]]:
        """Capture the input's unacked tags and its state."""
        mark = self.upstream.mark()
        return self._unacked, lambda: mark(0)

    def close(self) -> None:
        """Close the input; no more elements are pulled."""
        self._closed = True
        self.upstream.close()


class BufferTags:
    """The tags of the elements in a buffer; a mark can still list those of its own time later."""

    def __init__(self) -> None:
        self._base: Block = []
        self._added: list[Block] = []
        self._removed: list[Block] = []
        self.length = 0
        """How many elements left the buffer since `restore` last recorded its content."""

    def restore(self, held: Block) -> None:
        """Record the tags *held* in the buffer; older marks keep the earlier records."""
        self._base, self._added, self._removed, self.length = held, [], [], 0

    def add(self, tags: Block) -> None:
        """Record the tags of elements that entered the buffer."""
        self._added.append(tags)

    def remove(self, tags: Block) -> None:
        """Record the tags of elements that left the buffer."""
        self._removed.append(tags)
        self.length += len(tags)

    def mark(self) -> Callable[[int], UnackedBySession]:
        """Return a function of *back*: the unacked tags before the last *back* elements left."""
        base, came, went = self._base, self._added, self._removed
        n, m = len(came), len(went)
        return lambda back: _unacked([base, *came[:n]], went[:m], back)


def _unacked(came: Sequence[Block], went: list[Block], back: int) -> UnackedBySession:
    """Return the tags that *came* without those that *went*, but with the last *back* of these."""
    while back and went:
        last = went.pop()
        if len(last) > back:
            went.append(last[: len(last) - back])
        back -= min(back, len(last))
    first = next((block.table for block in came if isinstance(block, Rows)), None)
    if isinstance(first, SessionTags) and all(
        isinstance(block, Rows) and same(block.table, first) for block in (*came, *went) if block
    ):
        tags = np.setdiff1d(_numbers(came), _numbers(went), assume_unique=True)
        return {first.key: Unacked(runs_of(tags), NOTHING_UNACKED.tail)} if len(tags) else {}
    held: set[Tags] = set()
    for block in came:
        held.update(block)
    for block in went:
        held.difference_update(block)  # no tag is in two of them
    return only_tags(held)


def _numbers(blocks: Iterable[Block]) -> NDArray[np.int64]:
    parts = [block.numbers() for block in blocks if isinstance(block, Rows)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def runs_of(tags: NDArray[np.int64]) -> RangeSet:
    """Return *tags*, which are all different, as ranges."""
    if not len(tags):
        return NO_RANGES
    tags = np.sort(tags)
    gaps = np.flatnonzero(np.diff(tags) != 1)
    starts, stops = tags[np.append(0, gaps + 1)], tags[np.append(gaps, -1)] + 1
    return RangeSet(tuple(zip(starts.tolist(), stops.tolist(), strict=True)))


class TrackedShuffle(OpIterator):
    """A shuffle from *slots* on, whose buffer was empty before pick *first*.

    The buffer *held* the elements that come first: for each slot, *held* has the number of its
    element. The input is *alike* if it makes these elements again as they were.
    """

    def __init__(
        self,
        lender: TrackedInput,
        slots: ShuffleSlots,
        first: int,
        held: NDArray[np.int64] | None,
        *,
        alike: bool,
    ) -> None:
        self._input, self._alike = lender, alike
        self._read = slots.n
        """The number of the input's next element, once the buffer is as it was."""
        self._slots, self._first, self._held = slots, first, held
        self._content, self._made_of = SlotColumn(), SlotColumn()
        """The elements in the slots, and the tags of each."""
        self._tags = BufferTags()
        self._ended = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        if self._held is not None:
            self._fill_again(self._held)
        if self._slots.total is not None and not self._ended and not self._content.size:
            self._begin_empty()  # the input of a saved state may have more now
        slots, content, made_of = self._slots, self._content, self._made_of
        if self._tags.length >= max(slots.size, PICKS):
            self._tags.restore(made_of.block())
        while slots.total is None and content.size < slots.size:
            self._append(slots.size - content.size)
        if slots.total is None and (pulled := self._pull(n))[0]:
            draw = slots.exchange(len(pulled[0]))
            out, gone = content.exchange(draw, pulled[0]), made_of.exchange(draw, pulled[1])
        else:
            picked = slots.drain(n, content.size)
            out, gone = content.drain(picked), made_of.drain(picked)
        self._tags.remove(gone)
        return elements_of(out)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        n, held = self._slots.n, self._tags.mark()
        input_owes, below = self._input.mark()
        alike, first, total = self._alike, self._first, self._slots.total

        def at(back: int) -> State:
            owed, source = joined((held(back), input_owes)), below()
            place = [n - back, source]
            return unacked_exactly(owed, place, (lambda: [*place, first, total]) if alike else None)

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._input.close()

    def _fill_again(self, held: NDArray[np.int64]) -> None:
        """Put the elements that come first back into their slots."""
        content = self._content
        while content.size < len(held):
            if not self._append(len(held) - content.size):
                self._first, self._held = self._slots.n, None  # input changed: begin with what came
                return
        order = np.argsort(held)
        content.arrange(order)
        self._made_of.arrange(order)
        self._held = None

    def _begin_empty(self) -> None:
        """Begin with an empty buffer."""
        slots = self._slots
        self._slots, self._first = ShuffleSlots(slots.seed, slots.size, slots.n), slots.n
        self._content, self._made_of = SlotColumn(), SlotColumn()

    def _append(self, n: int) -> bool:
        """Read up to *n* elements into new slots; return False at the end."""
        fresh, tags = self._pull(n)
        self._content.append(fresh)
        self._made_of.append(tags)
        return bool(fresh)

    def _pull(self, n: int) -> tuple[list[Element], Block]:
        fresh, tags = self._input.pull(n)
        self._read += len(fresh)
        if fresh:
            self._tags.add(tags)
        else:
            self._ended = True
            self._slots.end(self._read)
        return fresh, tags

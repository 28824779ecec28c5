"""`interleave`: datasets made from elements, read in turns.

There are *cycle* slots. A slot whose turn comes gives up to *length* elements. An empty one takes
the dataset made from the next outer element first; one whose dataset has ended is empty from then
on, and its turn is over.

State: see `penstock.ops.internal.interleave_slots`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NoReturn, cast

from penstock.autotune.meter import Meter
from penstock.autotune.tuning import Tuning
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, CallLog, Mark, OpIterator, State
from penstock.executors.function import UserFunction
from penstock.executors.thread_pool import ThreadPool, await_any
from penstock.graph.node import Node, function
from penstock.ops.internal.inner_dataset import Inner, InnerError, OpenInner
from penstock.ops.internal.interleave_slots import Slots
from penstock.ops.map import check_calls, in_order, tuned_run
from penstock.options import check_count

CYCLE = 10
"""How many datasets are read in turns by default. Not the number of cores: it makes the order."""


@dataclass(frozen=True, eq=False)
class Interleave(Node):
    """The elements of the datasets that *fn* makes, *length* from each of *cycle* in turn."""

    op: ClassVar[str] = "interleave"
    splits_elements: ClassVar[bool] = True
    upstream: Node
    fn: Callable[..., Any] = function()
    cycle: int = CYCLE
    length: int = 1
    parallel: int | None = None
    deterministic: bool | None = None
    by_options: bool | None = None
    """See `Map`."""

    def __post_init__(self) -> None:
        check_calls(self, "map_func", self.parallel)
        object.__setattr__(self, "cycle", check_count(self.op, "cycle_length", self.cycle))
        object.__setattr__(self, "length", check_count(self.op, "block_length", self.length))

    @property
    def unordered(self) -> bool:
        """See `Node.unordered`. One thread, too, is sooner or later done with a dataset."""
        return not self.in_order and self.parallel is not None and self.cycle > 1

    @property
    def in_order(self) -> bool:
        """See `Map.in_order`."""
        return in_order(self.deterministic, self.by_options)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        label = self.label
        call = UserFunction(self.fn, label, context.seed())
        alone = OpenInner(call, context, label)
        pool, ahead, meter = self._pool(context.tuned)
        slots = Slots(
            context.open(self.upstream, state[0] if state else None),
            lambda: OpenInner(call.copy(), context, label) if self.parallel else alone,
            self.cycle,
            self.length,
            pool,
            ahead,
            state,
        )
        in_turn = pool is None or self.in_order
        run = _InTurn(slots, self.length) if in_turn else _AsReady(slots)
        return run if pool is None else tuned_run(run, pool.resize, meter)

    def _pool(self, tuned: Tuning) -> tuple[ThreadPool | None, int, Meter | None]:
        """Return the pool that reads, how many outer elements to read ahead, and their tuner."""
        if self.parallel is None:
            return None, 0, None
        threads, meter = tuned.threads(self.parallel)
        ahead = threads if meter is None else tuned.budget.cores
        return ThreadPool(threads, f"penstock-{self.op}"), ahead, meter


@dataclass(frozen=True, slots=True)
class _Woven:
    """A block made in turns: *count* elements, of which *first* gave the first.

    In that turn it had *given* some before.
    """

    first: int
    given: int
    slots: int
    length: int
    count: int

    def turn(self, back: int) -> tuple[int, int]:
        """See `penstock.ops.internal.interleave_slots.Turn`."""
        turns, given = divmod(self.given + self.count - back, self.length)
        return (self.first + turns) % self.slots, given

    def share(self, slot: int, back: int) -> int:
        """See `penstock.ops.internal.interleave_slots.Share`."""
        return self._total(slot, 0) - self._total(slot, back)

    def _total(self, slot: int, back: int) -> int:
        """Return how many elements *slot* gave from the beginning of the first turn up to there."""
        cycles, rest = divmod(self.given + self.count - back, self.slots * self.length)
        before = (slot - self.first) % self.slots * self.length
        return cycles * self.length + min(max(rest - before, 0), self.length)


class _SlotsIterator(OpIterator):
    """The elements of the datasets in *slots*; it is at slot number *slot*."""

    def __init__(self, slots: Slots, slot: int) -> None:
        self._slots, self._slot = slots, slot

    def report_calls(self, log: CallLog) -> None:
        """See `OpIterator.report_calls`."""
        self._slots.calls = log

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._slots.close()

    def _vacate(self) -> None:
        """Empty the slot."""
        self._slots.vacate(self._slot)
        if self._slots.ended:
            self._slot = self._slots.compact(self._slot)

    def _fail(self, inner: Inner, failed: InnerError) -> NoReturn:
        inner.fail(failed)
        if not failed.opened:
            self._vacate()
        try:
            raise failed.error
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever


class _InTurn(_SlotsIterator):
    """Reads one slot after the other. Reading ahead in threads does not change the order."""

    def __init__(self, slots: Slots, length: int) -> None:
        slot, self._given = slots.turn
        super().__init__(slots, slot)
        self._length = length
        self._last: _Woven | None = None

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Ends where a dataset's block does: then its mark still holds."""
        self._last = None
        self._slots.reopen()
        self._slots.read_ahead(n)
        if not self._stand(n):
            return []
        self._refill(n)
        return self._weave(n)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        last = self._last or self._woven(0)
        return self._slots.mark(last.turn, last.share)

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Makes the datasets, and skips in them."""
        if self._slots.pool is not None:
            return super().skip(n)
        self._last = None
        self._slots.reopen()
        left = n
        while left:
            try:
                if not self._occupy():
                    break
                left -= self._skip_turn(left)
            except ELEMENT_ERRORS:
                continue
        return n - left

    def _woven(self, count: int) -> _Woven:
        size = max(1, len(self._slots.open))
        return _Woven(self._slot, self._given, size, self._length, count)

    def _occupy(self) -> bool:
        """Put a dataset into the slot whose turn it is; return False at the end of everything."""
        slots = self._slots
        while slots.open:
            if slots.open[self._slot] is not None or slots.arrive(self._slot):
                return True
            self._slot = slots.compact(self._slot)
        return False

    def _stand(self, n: int) -> bool:
        """Get an element for the slot whose turn it is; return False at the end of everything."""
        while self._occupy():
            inner = self._current()
            if inner.dry:
                self._slots.fetch(inner, n, -self._given % self._length)
            elif inner.error is not None:
                self._fail(inner, inner.error)
            elif inner.ended:
                self._end_turn()
            else:
                return True
        return False

    def _current(self) -> Inner:
        return cast("Inner", self._later(0))

    def _later(self, turns: int) -> Inner | None:
        """Return the dataset whose turn it is *turns* turns later."""
        slots = self._slots.open
        return slots[(self._slot + turns) % len(slots)]

    def _vacate(self) -> None:
        """Empty the slot; the next dataset gets its turn."""
        super()._vacate()
        self._given = 0

    def _end_turn(self) -> None:
        """Empty the slot, whose turn is over."""
        self._vacate()
        if not self._slots.ended:
            self._slot = (self._slot + 1) % len(self._slots.open)

    def _skip_turn(self, n: int) -> int:
        """Skip the rest of a turn, but not more than *n* elements."""
        inner = self._current()
        size = len(self._slots.open)
        limit = n if size == 1 else min(n, self._length - self._given)
        try:
            skipped = inner.skip(limit)
        except ELEMENT_ERRORS:
            self._vacate()
            raise
        self._given += skipped
        if skipped < limit:
            self._end_turn()
        else:
            self._slot = (self._slot + self._given // self._length) % size
            self._given %= self._length
        return skipped

    def _reach(self, n: int) -> range:
        """Return the turns, counted from now, of the slots that *n* elements may need."""
        return range(min(len(self._slots.open), -(-(self._given + n) // self._length)))

    def _refill(self, n: int) -> None:
        """Read for the other slots whose turn comes too, or see whether a thread has."""
        for turns in self._reach(n)[1:]:
            inner = self._later(turns)
            if inner is not None and inner.dry and self._slots.start(inner, n):
                self._slots.fetch(inner, n)

    def _weave(self, n: int) -> list[Element]:
        """Take up to *n* elements in turns, as far as the blocks of the datasets go."""
        size, length, given = len(self._slots.open), self._length, self._given
        stop, cycle = given + n, size * length
        if stop > cycle:  # all blocks run out at once if each block takes as much of all
            stop -= stop % cycle
        for turns in self._reach(n):
            inner = self._later(turns)
            left = (0 if inner is None else len(inner.block)) + (0 if turns else given)
            stop = min(stop, (left // length * size + turns) * length + left % length)
        last = self._last = self._woven(stop - given)
        parts = []
        for turns in self._reach(last.count):
            inner = self._later(turns)
            if inner is not None:
                share = last.share((self._slot + turns) % size, last.count)
                parts.append(inner.take(share))
        self._slot, self._given = last.turn(0)
        return _braid(parts, length, length - given)


def _braid(parts: list[list[Element]], length: int, first: int) -> list[Element]:
    """Return elements of *parts* in turns of *length*; *first* in the first turn."""
    if len(parts) == 1:
        return parts[0]
    if length == 1:
        whole = len(parts[-1])
        out = [element for row in zip(*parts, strict=False) for element in row]
        return out + [part[whole] for part in parts if len(part) > whole]
    turns = [iter(part) for part in parts]
    out = list(islice(turns[0], first))
    turn = 1
    while taken := list(islice(turns[turn % len(turns)], length)):
        out += taken
        turn += 1
    return out


class _AsReady(_SlotsIterator):
    """Returns elements in the order in which the threads have them ready."""

    def __init__(self, slots: Slots) -> None:
        super().__init__(slots, 0)
        self._last = -1
        """Which slot the last block is from."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        slots = self._slots
        self._last = -1
        slots.reopen()
        while True:
            reading = slots.read_ahead(n)
            self._occupy(n)
            if not slots.open:
                return []
            inner = self._ready()
            if inner is None:
                await_any((*reading, *slots.pulling()))
            elif out := self._take(inner, n):
                return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        last = self._last
        return self._slots.mark(lambda _: (0, 0), lambda slot, back: back if slot == last else 0)

    def _occupy(self, n: int) -> None:
        """Fill the empty slots as far as there are datasets, and set the threads to work."""
        slots = self._slots
        for slot, inner in enumerate(slots.open):
            if inner is None and slots.has_arrivals() and not slots.arrive(slot):
                self._slot = slots.compact(self._slot)
                break
        for inner in slots.open:
            if inner is not None and inner.dry:
                slots.start(inner, n)

    def _ready(self) -> Inner | None:
        """Find a slot that need not be waited for, beginning with the last one."""
        slots = self._slots
        for later in range(len(slots.open)):
            slot = (self._slot + later) % len(slots.open)
            inner = slots.open[slot]
            if inner is not None and (not inner.dry or slots.start(inner, 1)):
                self._slot = slot
                return inner
        return None

    def _take(self, inner: Inner, n: int) -> list[Element]:
        if inner.dry:
            self._slots.fetch(inner, n)
        out = inner.take(n)
        if out:
            self._last = self._slot
        elif inner.error is not None:
            self._fail(inner, inner.error)
        elif inner.ended:
            self._vacate()
        return out

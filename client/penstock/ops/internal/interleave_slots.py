"""The open datasets of `interleave` and `flat_map`, each in a slot, and where they come from.

State: ``[the outer state, number, read, errors, slot, given, open]``. The outer state is that of
element *number*, the oldest whose dataset is open. *read* and *errors* count the elements read and
the errors raised from there on. It is the turn of *slot*, which has *given* that number of
elements. *open* holds ``[slot, outer elements after number, the dataset's own state]`` for each
open dataset.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from penstock.engine.iterator import ELEMENT_ERRORS, CallLog, Mark, OpIterator, State
from penstock.engine.op_times import begin_wait, waited
from penstock.errors import Closed, StateError
from penstock.executors.thread_pool import ThreadPool, await_any
from penstock.ops.internal.inner_dataset import Inner, InnerError, OpenInner, OuterPosition, Pulled

AHEAD = 16
"""The most elements of each dataset to read at once, if the caller wants that many in all."""

CLOSING_SECONDS = 0.2
"""How long closing waits for threads that are inside a dataset; after that they end alone."""

Turn: TypeAlias = Callable[[int], tuple[int, int]]
"""Returns the slot whose turn it was before the last *back* elements, and how many it had given."""

Share: TypeAlias = Callable[[int, int], int]
"""Returns how many of the last *back* elements came from a slot."""


@dataclass(frozen=True, slots=True)
class OuterRead:
    """The result of one read of the outer dataset: a dataset, an error, or else the end."""

    inner: Inner | None
    behind: OuterPosition
    error: Exception | None = None


class Slots:
    """The slots, filled from *outer*; with a *pool*, its threads read the datasets.

    *opener* returns a new `OpenInner` for each dataset, because users' functions need not be safe
    for several threads.
    """

    def __init__(  # noqa: PLR0915  what is known of the slots, one by one
        self,
        outer: OpIterator,
        opener: Callable[[], OpenInner],
        size: int,
        length: int,
        pool: ThreadPool | None,
        ahead: int,
        state: State,
    ) -> None:
        _, number, read, known, slot, given, opened = state or (None, 0, 0, 0, 0, 0, [])
        self.turn: tuple[int, int] = slot, given
        """The slot whose turn it was at the state, and how many elements it had given."""
        self.open: list[Inner | None] = [None] * size
        """The datasets by slot. After the outer dataset has ended, there are no empty slots."""
        self.ended = False
        """Whether the outer dataset has no more elements for any slot."""
        self.pool = pool
        self._closed = False
        self.calls: CallLog | None = None
        """Receives how long threads worked in datasets."""
        self._outer, self._opener, self._ahead = outer, opener, ahead
        self._length = length
        self._read = number
        """The number of the outer element that is read next."""
        self._number = number
        """The number of the outer element that gets a slot next."""
        self._behind = OuterPosition(outer.mark(), 0)
        """The position just before element `_number`, after any error."""
        self._errors: list[int] = []
        """For each error of the outer dataset: the number of the element after it."""
        self._known: int = known
        """How many errors to skip, because they were raised before the state was taken."""
        self._arrivals: deque[OuterRead] = deque()
        """Results of reads that have no slot yet."""
        self._reading: Future[list[OuterRead]] | None = None
        self._read_all = False
        self._saved = state
        """The state that this was opened at, until all its datasets are open again."""
        self._missing = sorted(opened, key=lambda entry: -entry[1])
        self._base, self._resume = number, number + read

    def reopen(self) -> None:
        """Open the datasets of a saved state again; after an error, another call continues.

        Raises:
            StateError: when the outer dataset has fewer elements than it had.
            Closed: in a fork of the process that reads ahead.
        """
        if self.pool is not None:
            self.pool.check_process()
        while self._missing:
            slot, offset, state = self._missing[-1]
            self._pass_to(self._base + offset)
            arrival = self._pull(1)[0]
            if arrival.error is not None:
                if self._passes(self._read):
                    continue
                self._missing.pop()
                self._read += 1
                try:
                    raise arrival.error
                finally:
                    del arrival  # as in `fetch`
            inner = self.open[slot] = self._found(arrival.inner)
            inner.begin_at(state)
            self.start(inner, 1)
            self._missing.pop()
        if self._saved is not None:
            self._pass_to(self._resume)
            self._number, self._behind = self._read, OuterPosition(self._outer.mark(), 0)
            self._saved = None

    def arrive(self, slot: int) -> bool:
        """Put the next dataset into *slot*; return False at the end of the outer one."""
        while True:
            arrival = self._next()
            self._behind = arrival.behind
            if arrival.error is None:
                break
            if not self._passes(self._number):
                try:
                    raise arrival.error
                finally:
                    del arrival  # as in `fetch`
        if arrival.inner is None:
            self.ended = True
            return False
        self._known = 0
        self._number += 1
        self.open[slot] = arrival.inner
        if self._errors:
            oldest = min(inner.number for inner in self.open if inner is not None)
            self._errors = [number for number in self._errors if number > oldest]
        return True

    def pulling(self) -> list[Future[Any]]:
        """Return the pool's reads of open datasets that have not finished."""
        return [inner.coming for inner in self.open if inner is not None and inner.coming]

    def has_arrivals(self) -> bool:
        """Return whether `arrive` would not wait."""
        return bool(self._arrivals)

    def compact(self, slot: int) -> int:
        """Remove the empty slots; return where *slot*, or the next one left, is now."""
        before = sum(inner is not None for inner in self.open[:slot])
        self.open = [inner for inner in self.open if inner is not None]
        return before % max(1, len(self.open))

    def vacate(self, slot: int) -> None:
        """Close the dataset in *slot* and leave it empty."""
        inner = self.open[slot]
        if inner is not None:
            inner.close()
        self.open[slot] = None

    def start(self, inner: Inner, n: int) -> bool:
        """Let the pool read the next block of *inner*; return whether `fetch` would not wait.

        Without a pool this is True, because there is nothing to wait for.
        """
        if self.pool is None:
            return True
        if inner.coming is None:
            inner.coming = self.pool.submit(partial(_pull, inner, self._wish(n), self.calls))
        return inner.coming.done()

    def fetch(self, inner: Inner, n: int, rest: int = 0) -> None:
        """Get the next block of *inner*, for about *n* elements of the interleaved dataset.

        *rest* is the number of elements left in the turn of *inner*.
        """
        if self.pool is None:
            inner.install(inner.pull(rest + self._wish(n) if rest < n else n))
            return
        self.start(inner, n)
        coming = cast("Future[Pulled | InnerError]", inner.coming)
        began = begin_wait()
        while not coming.done():
            await_any((coming, *self.read_ahead(n)))
        waited(began)
        inner.coming = None
        try:
            inner.install(coming.result())
        finally:
            del coming  # or an error would keep this frame, and with it the iterator, forever
        if inner.going:
            self.start(inner, n)

    def read_ahead(self, n: int) -> list[Future[Any]]:
        """Let the pool read the outer dataset and the first blocks of its inner datasets.

        Return the reads that have not finished.
        """
        if self.pool is None:
            return []
        if self._reading is not None and self._reading.done():
            self._take_in(self._reading, n)
        room = self._ahead - len(self._arrivals)
        if self._reading is None and room > 0 and not self._read_all:
            # The first dataset must not wait for others.
            count = room if self._number or self._arrivals else 1
            self._reading = self.pool.submit(partial(self._pull, count))
        return [] if self._reading is None else [self._reading]

    def mark(self, turn: Turn, share: Share) -> Mark:
        """Capture the state; *turn* and *share* say which slots gave the last block."""
        if self._saved is not None:
            saved = self._saved
            return lambda _: saved
        slots = [
            (slot, inner.number, inner.position, inner.mark())
            for slot, inner in enumerate(self.open)
            if inner is not None
        ]
        number, known, errors = self._number, self._known, tuple(self._errors)
        base, place = min(
            ((inner, place) for _, inner, place, _ in slots),
            key=lambda entry: entry[0],
            default=(number, self._behind),
        )
        failed = known + sum(behind > base for behind in errors)

        def at(back: int) -> State:
            opened = [
                [slot, inner - base, mark(share(slot, back))] for slot, inner, _, mark in slots
            ]
            return [place.state(), base, number - base, failed, *turn(back), opened]

        return at

    def close(self) -> None:
        """Close everything. Does not wait long for a dataset that does not return."""
        if self._closed:
            return
        self._closed = True
        if self.pool is not None:
            self.pool.close()
            # A thread that leaves its dataset in time lets it close cleanly. Closing wakes others.
            self.pool.join(CLOSING_SECONDS / 4)
        self._outer.close()
        for inner in (*self.open, *(arrival.inner for arrival in self._arrivals)):
            if inner is not None:
                inner.close()
        if self.pool is not None:
            self.pool.join(CLOSING_SECONDS)

    def _wish(self, n: int) -> int:
        """Return how many elements of a dataset to read when *n* of all are wanted.

        The result is the same number of whole turns for each dataset, but no more than the others
        have left. So all run out, and are read again, at one time. A block ends where any of them
        does.
        """
        left = [len(inner.block) for inner in self.open if inner is not None]
        length = self._length
        if self.pool is None and (turns := max(left, default=0) // length):
            return turns * length
        least = min(n, AHEAD)
        return max(n // (max(1, len(left)) * length), least // length) * length or least

    def _next(self) -> OuterRead:
        if self._closed:
            raise Closed("this iterator was closed while it looked for a dataset with elements")
        if self.pool is None:
            return self._pull(1)[0]
        began = begin_wait()
        while not self._arrivals:
            reading = self.read_ahead(1)
            if not self._arrivals:
                await_any(reading)  # the only unfinished read
        waited(began)
        return self._arrivals.popleft()

    def _take_in(self, reading: Future[list[OuterRead]], n: int) -> None:
        self._reading = None
        try:
            arrivals = reading.result()
        finally:
            del reading  # as in `fetch`
        for arrival in arrivals:
            self._arrivals.append(arrival)
            if arrival.inner is not None:
                self.start(arrival.inner, n)
            elif arrival.error is None:
                self._read_all = True

    def _passes(self, number: int) -> bool:
        """Record an error before element *number*; return whether an earlier run raised it."""
        self._errors.append(number)
        if not self._known:
            return False
        self._known -= 1
        return True

    def _pass_to(self, number: int) -> None:
        """Skip the outer elements before *number*."""
        while self._read < number:
            if not self._known:
                skipped = self._outer.skip(number - self._read)
                self._read += skipped
                if not skipped:
                    self._found(None)
                continue
            arrival = self._pull(1)[0]  # not `skip`, which might count elements that fail
            if arrival.error is None:
                self._found(arrival.inner)
            elif not self._passes(self._read):
                self._read += 1

    def _found(self, inner: Inner | None) -> Inner:
        if inner is None:
            raise StateError(
                f"the outer dataset ends at element {self._read}, but it had {self._resume} when "
                "the state was taken: give it the data that it had then"
            )
        return inner

    def _pull(self, n: int) -> list[OuterRead]:
        """Read up to *n* elements of the outer dataset. Any thread."""
        outer = self._outer
        try:
            block = outer.block(n)
        except ELEMENT_ERRORS as exc:
            return [OuterRead(None, OuterPosition(outer.mark(), 0), exc)]
        mark, size, number = outer.mark(), len(block), self._read
        if not block:
            return [OuterRead(None, OuterPosition(mark, 0))]
        self._read += size
        return [
            OuterRead(
                Inner(self._opener(), element, number + i, OuterPosition(mark, size - i)),
                OuterPosition(mark, size - i - 1),
            )
            for i, element in enumerate(block)
        ]


def _pull(inner: Inner, n: int, calls: CallLog | None) -> Pulled | InnerError:
    # An error keeps this frame, so the frame must not hold the outcome, only what datasets hold.
    began, used = time.perf_counter(), time.thread_time()
    if calls is not None:
        calls.begin_call()
    try:
        return inner.pull(n)
    finally:
        if calls is not None:
            calls.end_call(time.perf_counter() - began, time.thread_time() - used)

"""How `map` calls a function in several threads.

```
 puller thread            worker threads             the consumer's thread
 input ──▶ window of batches ──▶ each batch called ──▶ outcomes taken from the window, in its order
```

A *call batch* is one call, or a few if calls take less time than handing them over. The window
holds at most one batch for each thread, or a few (`FunctionCaller.ahead`). A state is the position
of the first input whose outcome was not returned. After a restore, calls that were in flight are
made again. If outcomes are taken as they complete, the state also lists the inputs after that
position whose outcomes were already returned.

Lock order: `_pulling` (the input is in use), then `_changed` (everything else).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from penstock.element import Element
from penstock.engine.iterator import CallLog, Mark, OpIterator, RowsIterator, State
from penstock.engine.op_times import begin_wait, waited
from penstock.engine.rows import Block, joined
from penstock.engine.unacked import unacked_exactly
from penstock.errors import Closed
from penstock.executors.function import FunctionCaller
from penstock.executors.thread_pool import (
    LOOK_AROUND,
    check_process,
    join_threads,
    start_thread,
)
from penstock.ops.internal.call_batch import CallBatch, InputRange, tail, unacked_of
from penstock.ops.internal.row_placer import RowPlacer
from penstock.protocol.ranges import RangeSet
from penstock.runtime.interrupts import InterruptibleCondition

NAME = "penstock-map"

CLOSING_SECONDS = 0.2
"""How long closing waits for threads in the middle of a call; after that they end alone."""


class ParallelMap(RowsIterator):
    """*call* on each element of *upstream*, in *threads* threads."""

    _process = 0
    """The process that its threads belong to."""

    def __init__(
        self,
        upstream: OpIterator,
        call: FunctionCaller,
        number: int,
        threads: int,
        deterministic: bool,
        returned: Sequence[tuple[int, int]] = (),
        *,
        tracked: bool = False,
    ) -> None:
        self._upstream, self._call, self._limit = upstream, call, threads
        self._room = threads * call.ahead
        self._in_order = deterministic
        self._tracked = tracked and not deterministic
        """Whether marks must list the unacked tags, because outcomes are not taken in order."""
        self._pulling = threading.Lock()
        lock = threading.RLock()
        self._changed = InterruptibleCondition(lock)
        """Notified when an outcome can be taken, or when none will come."""
        self._freed = InterruptibleCondition(lock)
        """Notified when the window has room."""
        self._behind = InputRange(number, number, upstream.mark(), 0)
        """The position after all input that was read."""
        self._returned = deque(RangeSet.of(*((number + a, number + b) for a, b in returned)).spans)
        """Runs of input elements to skip, because they were returned before a restore."""
        self._window: deque[CallBatch] = deque()
        self._ready: deque[CallBatch] = deque()
        """The finished batches, in the order in which they finished."""
        self._last: list[InputRange] = []
        """The inputs of the last block, in its order."""
        self._todo: SimpleQueue[CallBatch | None] = SimpleQueue()
        self._seconds = call.run_seconds
        """About how long a call takes."""
        self._puller: threading.Thread | None = None
        self._workers: list[threading.Thread] = []
        self._ended = self._closed = False
        self._calls: CallLog | None = None
        self._placer: RowPlacer | None = None
        self._broken: BaseException | None = None
        """The error that ended a thread. Nothing more would come, so the waiting side raises it."""

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if self._puller is not None:
            check_process(self._process)
        out: Block = []
        with self._changed:
            self._last = []
            self._start()
            began = begin_wait()
            while not (self._head() or (self._ended and not self._window)):
                self._check_open()
                self._changed.wait(LOOK_AROUND)
            waited(began)
            self._check_open()
            while len(out) < n and (run := self._head()) and run.joins(out):
                place, taken = run.position, run.consumed
                more = run.take(n - len(out))
                self._last.append(place.part(taken, run.consumed))
                out = joined(out, more)
                if not more:
                    break
                self._let_go(run)
            if not out and run is not None:
                error = run.take_error()
                self._let_go(run)
                try:
                    raise error
                finally:
                    del error, run  # or the error would keep this frame and the iterator forever
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        with self._changed:
            behind, to_come = self._behind, tuple(self._returned)
            window, last = [run.rest for run in self._window], self._last
        tracked = self._tracked

        def at(back: int) -> State:
            waiting = [*tail(last, back), *window]
            # Errors of the input come before the element of the same number: min takes the first.
            first = min(waiting, key=lambda place: place.number, default=behind)
            if tracked:
                below = unacked_exactly(unacked_of(waiting, behind), first.mark(first.back))
                return [first.number, below]
            numbers = RangeSet.of(*((place.number, place.stop) for place in waiting))
            returned = (RangeSet.of((first.number, behind.number)) - numbers) | RangeSet.of(
                *to_come
            )
            runs = [[a - first.number, b - first.number] for a, b in returned.spans]
            below = first.mark(first.back)
            return [first.number, below, runs] if runs else [first.number, below]

        return at

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Calls nothing that was not called ahead."""
        if self._returned:
            return super().skip(n)
        with self._pulling:
            skipped = self._drop(n)
            if skipped < n and not self._ended:
                more = self._upstream.skip(n - skipped)
                skipped += more
                self._move(more)
                if self._placer is not None:
                    with self._changed:
                        self._placer.pass_over(more)
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`. Does not wait long for a call that does not return."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            self._freed.notify_all()
            for _ in self._workers:
                self._todo.put(None)
        pullers = [] if self._puller is None else [self._puller]
        # A puller that leaves the input in time lets it close cleanly. Closing wakes a waiting one.
        join_threads(pullers, CLOSING_SECONDS / 4)
        self._upstream.close()
        join_threads([*pullers, *self._workers], CLOSING_SECONDS * 3 / 4)
        self._call.end()
        with self._changed:
            if self._placer is not None:
                self._placer.close()

    def expect_batches(self, size: int) -> None:
        """See `OpIterator.expect_batches`."""
        if self._in_order:  # else a batch is made of the outcomes that come first
            self._placer = RowPlacer(size)

    def report_calls(self, log: CallLog) -> None:
        """See `OpIterator.report_calls`."""
        self._calls = log

    def resize(self, threads: int) -> None:
        """Continue with *threads* threads; superfluous ones end when they have nothing to do."""
        with self._changed:
            self._limit, self._room = threads, threads * self._call.ahead
            surplus = len(self._workers) - threads
            self._freed.notify_all()
            for _ in range(surplus if not self._closed else 0):
                del self._workers[-1]
                self._todo.put(None)

    # --- the consumer's side, holding `_changed` ---

    def _head(self) -> CallBatch | None:
        """Return the run to take from next, if it is finished."""
        if not self._in_order:
            return self._ready[0] if self._ready else None
        return self._window[0] if self._window and self._window[0].made else None

    def _let_go(self, run: CallBatch) -> None:
        """Make room if *run*, the next one, is used up."""
        if run.over:
            self._window.remove(run)
            if not self._in_order:
                self._ready.popleft()
            self._freed.notify_all()

    def _drop(self, n: int) -> int:
        """Drop up to *n* inputs from the window."""
        dropped = 0
        with self._changed:
            self._last = []
            while dropped < n and self._window:
                run = self._window[0]
                dropped += run.drop(n - dropped)
                run.dropped = run.over
                if run.dropped:
                    self._window.popleft()
            self._ready = deque(run for run in self._ready if not run.dropped)
            self._freed.notify_all()
            self._changed.notify_all()
        return dropped

    def _check_open(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closed:
            raise Closed("this iterator was closed while it waited for an element")

    def _start(self) -> None:
        if self._puller is None and not self._closed:
            self._process = os.getpid()
            self._puller = start_thread(self._told(self._pull), NAME)

    def _told(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as exc:  # noqa: BLE001  it is raised where an element is asked for
                with self._changed:
                    self._broken = exc
                    self._changed.notify_all()

        return run

    # --- the puller's thread ---

    def _pull(self) -> None:
        while not self._ended and (room := self._wait_for_room()):
            with self._pulling:
                runs = self._pull_runs(room)
            for run in runs:
                self._todo.put(run)

    def _wait_for_room(self) -> int:
        """Return how many runs the window has room for; 0 once this is closed."""
        with self._freed:
            while not self._closed and len(self._window) >= self._room:
                self._freed.wait()
            return 0 if self._closed else self._room - len(self._window)

    def _pull_runs(self, room: int) -> list[CallBatch]:
        call = self._call
        size = max(1, min(call.most, int(call.run_seconds / self._seconds)))
        try:
            block = self._next_inputs(room * size)
        except BaseException as exc:  # noqa: BLE001  it is raised where the element is asked for
            error = CallBatch(self._behind, [], made=True)
            error.fail(exc)
            self._add([error], 0)
            return []
        mark, length, first = self._upstream.mark(), len(block), self._behind.number
        size = -(-length // room)  # so that the last inputs are spread over all threads too
        runs = []
        for i in range(0, length, size or 1):
            inputs = block[i : i + size]
            place = InputRange(first + i, first + i + len(inputs), mark, length - i)
            runs.append(CallBatch(place, inputs))
        self._add(runs, length)
        return runs

    def _place(self, runs: list[CallBatch]) -> None:
        if self._placer is not None and self._call.places:
            for run in runs:
                run.rooms = self._placer.rooms(len(run.inputs))

    def _next_inputs(self, n: int) -> list[Element]:
        """Return up to *n* input elements that are wanted."""
        returned = self._returned
        while returned and returned[0][0] <= self._behind.number:
            skipped = self._upstream.skip(returned[0][1] - self._behind.number)
            with self._changed:
                returned.popleft()
                self._move(skipped)
        if returned:
            n = min(n, returned[0][0] - self._behind.number)
        return self._upstream.block(n)

    def _add(self, runs: list[CallBatch], inputs: int) -> None:
        with self._changed:
            self._place(runs)
            self._window += runs
            self._ready += [run for run in runs if run.made]
            self._move(inputs)
            self._ended = not runs
            # One thread for each run so far, up to the limit: a short input needs few.
            for _ in range(min(len(runs), self._limit - len(self._workers))):
                if not self._closed:
                    self._hire()
            if self._ended or self._head():
                self._changed.notify_all()

    def _hire(self) -> None:
        try:
            self._workers.append(start_thread(self._told(self._work), NAME))
        except RuntimeError:  # the system has no more
            if not self._workers:
                raise

    def _move(self, inputs: int) -> None:
        """Move the position of the input by *inputs* elements."""
        number = self._behind.number + inputs
        self._behind = InputRange(number, number, self._upstream.mark(), 0)

    # --- the workers' threads ---

    def _work(self) -> None:
        call = self._call.copy()
        try:
            while (run := self._todo.get()) is not None and not self._closed:
                if self._calls is not None:
                    self._calls.begin_call()
                used = time.thread_time()
                seconds = run.make(call)
                if self._calls is not None:
                    took = seconds * run.count
                    used = took if call.elsewhere else time.thread_time() - used
                    self._calls.end_call(took, used)
                with self._changed:
                    run.made = True
                    # A run of many calls says more about how long one takes.
                    self._seconds += (seconds - self._seconds) * (1 - 0.75**run.count)
                    if self._placer is not None and self._call.places:
                        self._placer.learn(run.parts, len(run.failed), run.rooms)
                    if not self._in_order and not run.dropped:
                        self._ready.append(run)
                    if self._head():
                        self._changed.notify_all()
        finally:
            call.done()

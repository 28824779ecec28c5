"""`prefetch`: a thread runs the input ahead. State: the input's own.

With `AUTOTUNE`, the number of elements that are made ahead depends on how often the consumer finds
the buffer empty, see `penstock.autotune.buffers`.

```
 thread                             lane                             iterator
 input ──block, mark──▶ blocks with their marks, in order ──block, mark──▶ elements
                        at most *size* elements, those of
                        the iterator's block included
```

The thread refers to the lane and the input, never to the iterator: an iterator that is dropped is
collected, closes the lane, and so ends the thread, which closes the input.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from penstock.autotune.budget import Budget
from penstock.autotune.buffers import BufferTuner
from penstock.element import Element, nbytes
from penstock.engine.block_size import MAX_BLOCK, BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.engine.op_times import begin_wait, waited
from penstock.errors import Closed
from penstock.executors.thread_pool import LOOK_AROUND, check_process, start_thread
from penstock.graph.node import Node
from penstock.options import check_count_or_auto
from penstock.runtime.interrupts import InterruptibleCondition

CLOSING_SECONDS = 0.2
"""How long closing waits for a thread that is inside the input; later it ends by itself."""


@dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """The same elements, up to *size* of them made before they are asked for."""

    op: ClassVar[str] = "prefetch"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count_or_auto("prefetch", "buffer_size", self.size))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _PrefetchIterator(
            context.open(self.upstream, state), _Lane(*context.tuned.buffer(self.size))
        )


def run_ahead(upstream: OpIterator, size: int) -> OpIterator:
    """Return *upstream*, run up to *size* elements ahead by a thread; its state is the input's."""
    return _PrefetchIterator(upstream, _Lane(size))


@dataclass(frozen=True, slots=True)
class _Handed:
    """The result of one read of the input: a block (an empty one at the end), or an error."""

    block: list[Element]
    """The elements of the block that are still to be returned."""
    mark: Mark
    error: BaseException | None = None

    @property
    def last(self) -> bool:
        """Whether the thread stops after this: at the end, or after an error of the run itself."""
        return not self.block and not isinstance(self.error, ELEMENT_ERRORS)


class _Lane:
    """The queue between the thread and the iterator. With a *budget*, its size is tuned."""

    def __init__(self, size: int, budget: Budget | None = None) -> None:
        self._resize(size)
        self._budget = budget
        self._tuner = BufferTuner(size)
        self._left = 0.0
        """How many bytes the budget has left."""
        self._nbytes = 0.0
        """About how large an element is."""
        self._changed = InterruptibleCondition()
        self._handed: deque[_Handed] = deque()
        self._level = 0
        self._awaited = False
        """Whether the consumer waits for an element."""
        self.closed = False
        self._failure: BaseException | None = None
        """The error that ended the thread, if the input did not raise it."""

    def wait_for_room(self) -> int:
        """Wait until there is room worth filling; return its size, 0 once the lane is closed."""
        with self._changed:
            while not self.closed and self._size - self._level < self._least:
                self._changed.wait(LOOK_AROUND)
            return 0 if self.closed else self._size - self._level

    def put(self, handed: _Handed) -> None:
        """Hand over the result of a read of the input."""
        size = nbytes(handed.block[0]) if self._budget and handed.block else None
        with self._changed:
            if size is not None:
                self._nbytes += (size - self._nbytes) / 4 if self._nbytes else size
                self._note()
            self._handed.append(handed)
            self._level += len(handed.block)
            if self._size - self._level < self._least and not self._awaited:
                self._tuner.full()
            self._changed.notify_all()

    def take(self) -> _Handed:
        """Wait for the next result of the input.

        Raises:
            Closed: when the lane is closed before a result comes.
        """
        with self._changed:
            began = begin_wait()
            if not self._handed:
                self._find_empty()
            while not self._handed and not self.closed and self._failure is None:
                self._changed.wait(LOOK_AROUND)
            waited(began)
            self._awaited = False
            if self.closed:
                raise Closed("this iterator was closed while it waited for an element")
            if not self._handed and self._failure is not None:
                raise self._failure
            return self._handed.popleft()

    def end(self, failure: BaseException) -> None:
        """Let the iterator raise *failure* after the results handed over so far."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def leave(self, elements: int) -> None:
        """Record that *elements* elements left the buffer."""
        with self._changed:
            before = self._size - self._level
            self._level -= elements
            if before < self._least <= before + elements:
                self._changed.notify_all()

    def close(self) -> bool:
        """Wake both sides, which then stop; return whether this was the first call."""
        with self._changed:
            first, self.closed = not self.closed, True
            self._changed.notify_all()
            if self._budget is not None:
                self._budget.forget(self)
            return first

    def _find_empty(self) -> None:
        self._awaited = True
        if self._budget is not None and self._tuner.empty(room=self._left, nbytes=self._nbytes):
            self._note()
            self._changed.notify_all()

    def _note(self) -> None:
        """Tell the budget what the buffer may hold, and make it smaller while that is too much."""
        budget, tuner = self._budget, self._tuner
        if budget is not None:
            self._left = budget.note(self, tuner.size * self._nbytes)
            while tuner.fit(excess=-self._left):
                self._left = budget.note(self, tuner.size * self._nbytes)
            self._resize(tuner.size)

    def _resize(self, size: int) -> None:
        self._size = size
        self._least = max(1, size // 16)
        """The least room for which the thread is woken, so that not every element wakes it."""


def _fill(upstream: OpIterator, lane: _Lane) -> None:
    pace = BlockSizer()
    while room := lane.wait_for_room():
        try:
            handed = _Handed(pace.read(upstream, min(room, MAX_BLOCK)), upstream.mark())
        except BaseException as exc:  # noqa: BLE001  it is raised where the element is asked for
            handed = _Handed([], _mark_behind(upstream), exc)
        last = handed.last
        try:
            lane.put(handed)
        except BaseException as exc:  # noqa: BLE001  the consumer must not wait for what is lost
            lane.end(exc)
            break
        del handed  # the block is the iterator's now
        if last:
            break
    if lane.closed:
        upstream.close()


def _mark_behind(upstream: OpIterator) -> Mark:
    """Return the mark after an error, or one that raises: this thread itself must not fail."""
    try:
        return upstream.mark()
    except BaseException as exc:  # noqa: BLE001  it is raised when the mark is used
        failure = exc

    def broken(_back: int) -> State:
        raise failure

    return broken


class _PrefetchIterator(OpIterator):
    def __init__(self, upstream: OpIterator, lane: _Lane) -> None:
        self._upstream = upstream
        self._lane = lane
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._current = _Handed([], upstream.mark())
        self._ended = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        if not self._current.block and not self._ended:
            self._advance()
        block = self._current.block
        out = block[:n]
        del block[:n]
        self._lane.leave(len(out))
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        mark, left = self._current.mark, len(self._current.block)
        return lambda back: mark(left + back)

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if self._thread is not None or self._ended:
            return super().skip(n)
        skipped = self._upstream.skip(n)
        self._current = _Handed([], self._upstream.mark())
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`. Does not wait long for an input that does not return."""
        if not self._lane.close():
            return
        thread = self._thread
        # Garbage collection may close an iterator in a thread of its own input.
        if thread is None or thread is threading.current_thread():
            self._upstream.close()
            return
        # A thread that leaves the input in time lets it close cleanly. Closing wakes a waiting one.
        thread.join(CLOSING_SECONDS / 4)
        self._upstream.close()
        thread.join(CLOSING_SECONDS)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then the thread has stopped, perhaps with the lock held
            self._lane.close()

    def _advance(self) -> None:
        """Wait for the next block. An error of the run itself ends the thread, not the iterator."""
        thread = self._thread
        if thread is None:
            work = partial(_fill, self._upstream, self._lane)
            self._process = os.getpid()
            self._thread = thread = start_thread(work, "penstock-prefetch")
        check_process(self._process)
        handed = self._lane.take()
        self._current = _Handed(handed.block, handed.mark)
        if handed.last:
            thread.join(CLOSING_SECONDS)  # it is about to end
            self._thread = None
            self._ended = handed.error is None
        if handed.error is not None:
            try:
                raise handed.error
            finally:
                del handed  # or the error would keep this frame, and with it the iterator, forever

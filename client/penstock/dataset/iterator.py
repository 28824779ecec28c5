"""`DatasetIterator`: what `iter(dataset)` gives to a training loop."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.dataset.job_position import JobPosition
from penstock.dataset.reading import reading_of, reads_job
from penstock.dataset.turn import Turn
from penstock.element import Element, NestedDataset, leaves
from penstock.engine.block_size import MAX_BLOCK, BlockSizer
from penstock.engine.iterator import State
from penstock.engine.loop_time import LoopClock
from penstock.errors import Closed, ElementError, PenstockError, Reentered
from penstock.explanation.ask import jobs_of
from penstock.explanation.looks import IteratorStats, OperatorLook
from penstock.graph.node import Node
from penstock.graph.run import LoopBlock, PipelineRun, SaveWanted
from penstock.graph.traversal import structure_of
from penstock.options import check_seed
from penstock.protocol.measures import figures_of
from penstock.runtime.interrupts import close_dropped, in_own_thread, uninterrupted
from penstock.runtime.tracebacks import keep_users_frames, named_by
from penstock.runtime.usage import resident

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_END: Any = object()


class DatasetIterator(JobPosition, Iterator[Element]):
    """An iterator over a dataset's elements; also for ``async for`` and ``with``.

    It comes from ``iter(dataset)`` or `Dataset.iterator`. After an error, it continues with the
    next element. An error of a worker ends the job's pass, for all its readers.

    Several threads and several coroutines may read one iterator. Each element and each error goes
    to one of them, and the end to all. `state` and `close` may be called while others wait for an
    element; an element that another thread is about to get then counts as taken.

    Args:
        node: the last stage of the graph to read.
        state: see `Dataset.iterator`.
        seed: see `Dataset.iterator`.

    >>> with iter(Dataset.range(5).batch(2)) as batches:
    ...     next(batches)
    array([0, 1])
    """

    def __init__(self, node: Node, state: State = None, seed: int | None = None) -> None:
        self._node, self._seed = node, None if seed is None else check_seed("iterator", seed)
        self._shape = structure_of(node)
        self._active: Iterator[Element] = iter(())
        """The rest of the block. Its length is right, whichever thread takes elements from it."""
        self._turn = Turn()
        self._given_up: deque[asyncio.Future[Element]] = deque()
        """Elements on their way to coroutines that were cancelled: they are for the next ones."""
        self._reading: PipelineRun | None = None
        self._closed = False
        uninterrupted(partial(self._begin, state))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Element:
        try:
            for element in self._active:  # a list's own iterator: here is no Python in it
                return element
        except ValueError:  # a generator (`permitted`), and another thread is in it
            pass
        return self._next_block()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Element:
        import asyncio  # noqa: PLC0415  loops that are no coroutines do without

        if self._given_up:
            awaited = self._given_up.popleft()
        else:
            try:
                for element in self._active:
                    return element
            except ValueError:  # as above
                pass
            awaited = asyncio.ensure_future(asyncio.to_thread(next, self, _END))
        try:
            element = await asyncio.shield(awaited)
        except asyncio.CancelledError:
            if not awaited.cancelled():
                self._given_up.append(awaited)
            raise
        if element is _END:
            raise StopAsyncIteration
        return element

    def at_hand(self, default: T) -> Element | T:
        """Return the next element if it has arrived, else *default*, without waiting.

        Event loops use it, because such an element needs no thread.

        >>> elements = iter(Dataset.range(2))
        >>> elements.at_hand(None)
        """
        try:
            for element in self._active:
                return element
        except ValueError:  # as above
            return default
        reading = self._reading
        if reading is None or not reading.ready:
            return default
        try:
            return self._turn.call_at_once(self._advance, default)
        except (Reentered, StopIteration):
            return default

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_reading", None) is None or sys.is_finalizing():
            return  # its __init__ failed; or the process ends, and its threads stopped anywhere
        uninterrupted(self._drop)  # what a handler raises here would be lost

    def _drop(self) -> None:
        reading = self._reading
        if reading is None:
            return
        if reading.far or in_own_thread():
            close_dropped(reading.close)
        else:
            # As for a dropped generator, this thread closes what users' functions opened.
            reading.close()

    def state(self, timeout: float | None = None, *, without_missing: bool = False) -> State:
        """Return the position after the last returned element, as plain JSON.

        A state fits any dataset built by the same code, in any process; see `Dataset.iterator`.

        After `distribute`, it is the state of the whole job, and all readers of the job must call
        this at the same step. It also holds what this reader's operators after
        `distribute` have read and not yet returned: rows of a batch, random numbers,
        counts. The same number of readers, each with its own state, continues exactly; so does one
        reader that shares the job with nobody. Otherwise, and with `shuffle`, `cache`,
        `group_by_window` or `bucket_by_sequence_length` there, these operators start over, which a
        warning says: no element is lost, and one that was cut into pieces comes again whole unless
        all pieces were returned.
        Save it with the model's checkpoint, with the same step in its name: as an entry of the
        dict for ``torch.save``, or as `json.dumps` text in Orbax or ``tf.train.Checkpoint``. Any
        number of readers and workers can continue from it.

        Args:
            timeout: for how many seconds to wait for the job's other readers and the dispatcher; by
                default the timeout of `distribute`. Without `distribute` there is no wait.
            without_missing: save the job also if some readers do not call this. All other readers
                must give the same. A silent reader is left out after two heartbeats and a tenth of
                *timeout*, any other one at the end of *timeout*; a warning names them. Elements
                that they acknowledged without reporting it may be delivered twice from this state,
                and its account counts them as in doubt.

        Raises:
            SaveFailed: the same for all readers of the job, naming the missing ones. All readers
                can continue.
            Closed: after `close`.

        >>> import json
        >>> elements = iter(Dataset.range(5))
        >>> int(next(elements))
        0
        >>> saved = json.dumps(elements.state())
        >>> [int(x) for x in Dataset.range(5).iterator(json.loads(saved))]
        [1, 2, 3, 4]
        """
        return self.save("", timeout, without_missing=without_missing)

    @property
    def reads_job(self) -> bool:
        """Whether the pipeline has a `distribute`, and so reads a job."""
        return reads_job(self._node)

    def save(
        self, label: str, timeout: float | None = None, *, without_missing: bool = False
    ) -> State:
        """Return the state, saved under a name; see `penstock.service.save_job`.

        Args:
            label: the name, the same for all readers of a job; empty is no name.
            timeout: see `state`.
            without_missing: see `state`.

        Raises:
            SaveFailed: see `state`; also when readers give different names.
            Closed: after `close`.

        >>> elements = iter(Dataset.range(5))
        >>> elements.save("step 0") == elements.state()
        True
        """
        wanted = SaveWanted(label, timeout, without_missing)
        try:
            return uninterrupted(lambda: self._check_open().state(wanted))
        except PenstockError as exc:
            keep_users_frames(exc)
            raise

    def restore(self, state: State) -> None:
        """Continue from a saved state.

        It opens the job again, so its other readers must restore the same state too. After an
        error, this iterator stays at its position.

        Args:
            state: the result of `state`; None is the beginning.

        Raises:
            StateError: when *state* belongs to another pipeline, or is no state.
            WaitedTooLong: when the dispatcher of a job is absent for too long.
            Refused: when the dispatcher refuses the job.
            Closed: after `close`.

        >>> elements = iter(Dataset.range(5))
        >>> start = elements.state()
        >>> int(next(elements)), int(next(elements))
        (0, 1)
        >>> elements.restore(start)
        >>> int(next(elements))
        0
        """
        self._check_open()
        self._in_turn(partial(self._begin, state))

    def stats(self, *, jobs: bool = True) -> IteratorStats:
        """Return how long this loop waits, and how long operators work, here and on workers.

        `penstock.explain` turns these figures into a sentence. Workers and readers report once a
        second.

        Args:
            jobs: if the pipeline has a `distribute`, ask the dispatcher for the job's tasks, their
                operators and its other loops, in one call of at most five seconds. False makes no
                call, and takes some microseconds.

        Returns:
            Sums since the iterator began or was restored, and of about the last ten seconds. For
            each worker: bytes and rates, the transport, the compression and the fill of buffers.
            The memory of this process.

        Raises:
            Closed: after `close`.

        >>> elements = iter(Dataset.range(5))
        >>> len(list(elements)), elements.stats().loop.steps
        (5, 5)
        """
        reading, clock = self._check_open(), self._clock
        operators = tuple(
            OperatorLook(row.label, row.elements, row.worked, row.waited, row.call, row.cpu)
            for row in reading.times.now()
        )
        whole, newest = clock.total(), clock.newest()
        if newest.waiting:
            here = reading.working_in()
            awaited = here or reading.awaited
            newest = replace(newest, waits_for=awaited, waits_here=bool(here))
        passes = reading.passes_read
        known, measures = jobs_of(passes) if jobs else (), reading.tallies.measures()
        rates = {each.key: each.sum / whole.seconds for each in measures if whole.seconds > 0}
        figures = figures_of(measures, rates)
        links, cuts = reading.links, reading.cuts
        memory = resident()
        return IteratorStats(whole, newest, operators, links, passes, known, figures, cuts, memory)

    def close(self) -> None:
        """Release everything that the pipeline holds: threads, files, connections. Idempotent.

        >>> elements = iter(Dataset.range(5))
        >>> elements.close()
        >>> next(elements)
        Traceback (most recent call last):
        penstock.errors.Closed: this iterator was closed; make another one with iter(dataset)
        """
        uninterrupted(self._close)

    def _close(self) -> None:
        self._closed = True
        reading, self._reading = self._reading, None
        if reading is not None:
            try:
                reading.close()
            except Reentered:  # a signal handler, in the middle of a change of this thread's
                close_dropped(reading.close, 0)
        self._active = iter(())

    def _begin(self, state: State) -> None:
        try:
            self._start(state)
        except PenstockError as exc:
            keep_users_frames(exc)
            raise

    def _start(self, state: State) -> None:
        reading = reading_of(self._node, self._shape, state, self._seed)
        self._clock = LoopClock()
        self._clock.working_in = reading.working_in
        self._clock.operators = reading.times.now
        reading.measured_by(self._clock)
        before = self._reading
        reading.start(before)
        self._reading, self._active = reading, iter(())
        self._sizer = BlockSizer(most=MAX_BLOCK)
        if before is not None:
            before.close()
        if self._closed:  # meanwhile, by another thread
            self._close()

    def _next_block(self) -> Element:
        try:
            return self._in_turn(self._advance)
        except PenstockError as exc:
            keep_users_frames(exc)
            raise

    def _in_turn(self, call: Callable[[], T]) -> T:
        """Make *call* when no other thread is at it, and let no signal handler split it."""
        return self._turn.call(call, self._check_open)

    def _advance(self) -> Element:
        """Return the next element, of the next block if another thread has not brought that."""
        while True:
            try:
                for element in self._active:
                    return element
                break
            except ValueError:  # another thread is taking one
                time.sleep(0)
        reading = self._check_open()
        began = time.perf_counter()
        self._clock.ask(began)
        try:
            element, self._active, size = self._waited_for(reading)
        except StopIteration as exc:  # it would end the pass without a word
            raise RuntimeError("a pipeline raised StopIteration") from exc
        except Exception:
            self._check_open()
            raise
        if self._closed:  # meanwhile, by another thread
            self.close()
            reading.close()
            self._check_open()
        until = time.perf_counter()
        if not size:
            self._clock.end(until)
            raise StopIteration
        self._clock.got(until, size)
        self._sizer.learn(until - began, size)
        if isinstance(element, (tuple, dict, NestedDataset)) and _has_dataset(element):
            self._active = iter(())
            raise ElementError(
                "a dataset inside an element cannot be handed to a training loop: flatten it "
                "first, as in window(size).flat_map(lambda w: w.batch(size))"
            )
        return element

    def _waited_for(self, reading: PipelineRun) -> LoopBlock:
        try:
            return reading.advance(self._sizer.n)
        except BaseException:
            self._clock.gave_up(time.perf_counter())
            raise

    def _check_open(self) -> PipelineRun:
        if self._closed or self._reading is None:
            raise Closed("this iterator was closed; make another one with iter(dataset)")
        return self._reading


named_by(DatasetIterator)


def _has_dataset(element: Element) -> bool:
    return any(isinstance(leaf, NestedDataset) for leaf in leaves(element))

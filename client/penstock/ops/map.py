"""`map`: a function of each element.

State: ``[calls so far, the input's state]``; the first is the number for ``rng`` and errors. If
parallel calls are returned as they complete, a third part lists the calls after that position that
have been returned: ranges, as distances from it (see `penstock.ops.internal.parallel_map`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.autotune.meter import Meter
from penstock.autotune.tuning import Tuning
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import (
    CallLog,
    Mark,
    OneToOneIterator,
    OpIterator,
    RowsIterator,
    State,
)
from penstock.engine.rows import Block, elements_of
from penstock.errors import DatasetError
from penstock.executors.function import FunctionCaller, UserFunction
from penstock.executors.movable_function import MovableFunction
from penstock.executors.process_function import ProcessFunction
from penstock.graph.node import Node, function
from penstock.ops.internal.parallel_map import ParallelMap
from penstock.options import check_count_or_auto


@dataclass(frozen=True, eq=False)
class Map(Node):
    """*fn* of each element; with *parallel* calls in as many threads at once, or processes."""

    op: ClassVar[str] = "map"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    fn: Callable[..., Any] = function()
    parallel: int | None = None
    deterministic: bool | None = None
    executor: str = "thread"
    by_options: bool | None = None
    """The value of the options, used if *deterministic* is None."""

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DatasetError(f"map: map_func must be callable, not {self.fn!r}")
        if self.parallel is not None:
            parallel = check_count_or_auto("map", "num_parallel_calls", self.parallel)
            object.__setattr__(self, "parallel", parallel)
        if self.executor not in _CALLS:
            raise DatasetError(
                f'map: executor must be "thread" or "process", not {self.executor!r}'
            )

    @property
    def unordered(self) -> bool:
        """See `Node.unordered`."""
        return not self.in_order and self.parallel not in (None, 1)

    @property
    def in_order(self) -> bool:
        """Whether elements come in the order of the input."""
        return in_order(self.deterministic, self.by_options)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, below, *returned = state or (0, None)
        call = _CALLS[self.executor](self.fn, self.label, context.seed())
        upstream = context.open(self.upstream, below)
        threads, meter = self._threads(context.tuned)
        if meter is not None and context.tuned.budget.processes is not None:
            call = meter.calls = MovableFunction.of(self.fn, self.label, context.seed())
        if self.parallel is None and not returned and isinstance(call, UserFunction):
            return _MapIterator(upstream, call, number)
        tracked = context.sessions is not None
        run = ParallelMap(
            upstream, call, number, threads, self.in_order, *returned, tracked=tracked
        )
        return run if meter is None else TunedIterator(run, run.resize, meter)

    def _threads(self, tuned: Tuning) -> tuple[int, Meter | None]:
        if self.executor == "process":  # a thread for each
            return tuned.processes(self.parallel or 1), None
        return tuned.threads(self.parallel or 1)


def in_order(deterministic: bool | None, by_options: bool | None) -> bool:
    """Return whether output order is preserved; *deterministic* wins over options."""
    return (by_options if deterministic is None else deterministic) is not False


_CALLS: dict[str, Callable[[Callable[..., Any], str, int], FunctionCaller]] = {
    "thread": UserFunction,
    "process": ProcessFunction.of,
}


class _MapIterator(OneToOneIterator):
    def __init__(self, upstream: OpIterator, call: UserFunction, number: int) -> None:
        super().__init__(upstream, number)
        self._call = call

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        if self._due is not None:
            self._raise()
        block = elements_of(self._inputs) or self._upstream.block(n)
        out, failed = self._call.call_block(block[:n], self._number)
        self._number += len(out)
        self._inputs = block[len(out) :]
        if failed is not None:
            self._due = failed
            del failed  # or the error would keep this frame, and with it the iterator, forever
            if not out:
                self._raise()
        return out


class TunedIterator(RowsIterator):
    """The elements of *run*; *resize* is told how many threads *meter* wants."""

    def __init__(self, run: OpIterator, resize: Callable[[int], None], meter: Meter) -> None:
        self._run, self._resize, self._meter = run, resize, meter

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        block: Block = []
        self._meter.enter()
        try:
            block = self._run.rows(n)
        finally:
            if self._meter.leave(len(block)):
                self._resize(self._meter.threads)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        return self._run.mark()

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        return self._run.skip(n)

    def expect_batches(self, size: int) -> None:
        """See `OpIterator.expect_batches`."""
        self._run.expect_batches(size)

    def report_calls(self, log: CallLog) -> None:
        """See `OpIterator.report_calls`."""
        self._run.report_calls(log)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._run.close()
        self._meter.close()

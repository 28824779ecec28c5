"""`map`: a function of each element; `map_batches`: a function of many elements at once, stacked.

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
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.executors.function import FunctionCaller, UserFunction, wants_rng
from penstock.executors.movable_function import MovableFunction
from penstock.executors.process_function import ProcessFunction
from penstock.executors.stacked_function import Stacked, StackedFunction
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
        check_calls(self, "map_func", self.parallel)
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
        threads, meter = _threads_of(context.tuned, self.parallel, self.executor)
        if meter is not None and context.tuned.budget.processes is not None:
            call = meter.calls = MovableFunction.of(self.fn, self.label, context.seed())
        if self.parallel is None and not returned and isinstance(call, UserFunction):
            return _MapIterator(upstream, call, number)
        tracked = context.sessions is not None
        run = ParallelMap(
            upstream, call, number, threads, self.in_order, *returned, tracked=tracked
        )
        return tuned_run(run, run.resize, meter)


def check_calls(node: Any, parameter: str, parallel: Any) -> None:
    """Check the function of *node*, given as *parameter*, and how many calls run at once.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    if not callable(node.fn):
        raise DatasetError(f"{node.op}: {parameter} must be callable, not {node.fn!r}")
    if parallel is not None:
        threads = check_count_or_auto(node.op, "num_parallel_calls", parallel)
        object.__setattr__(node, "parallel", threads)


def _threads_of(
    tuned: Tuning, parallel: int | None, executor: str | None
) -> tuple[int, Meter | None]:
    """Return how many threads make calls, and what measures them if their number is tuned."""
    if executor == "process":  # a thread for each
        return tuned.processes(parallel or 1), None
    return tuned.threads(parallel or 1)


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
        return self.made(n, self._upstream.block, self._call.call_block)


def tuned_run(run: OpIterator, resize: Callable[[int], None], meter: Meter | None) -> OpIterator:
    """Return *run*; with a *meter*, the number of its threads is found as it runs."""
    return run if meter is None else TunedIterator(run, resize, meter)


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


@dataclass(frozen=True, eq=False)
class MapBatches(Node):
    """The rows of *fn* of stacked elements, in their order."""

    op: ClassVar[str] = "map_batches"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    fn: Callable[..., Any] = function()
    parallel: int | None = None
    executor: str | None = None

    def __post_init__(self) -> None:
        check_calls(self, "fn", self.parallel)
        if wants_rng(self.fn):
            raise DatasetError(
                "map_batches: a generator rng is one element's, and fn gets many at once: use map, "
                "or pair the elements with Dataset.random(seed) by zip"
            )
        if self.executor not in (None, "thread", "process"):
            raise DatasetError(
                f'map_batches: executor must be "thread", "process" or None, not {self.executor!r}'
            )

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, below = state or (0, None)
        upstream, apart = context.open(self.upstream, below), self.executor == "process"
        call = StackedFunction(self.fn, self.label)
        if self.parallel is None and not apart:
            return _MapBatchesIterator(upstream, call, number)
        threads, meter = _threads_of(context.tuned, self.parallel, self.executor)
        calls = ProcessFunction.of(Stacked(self.fn), self.label, 0) if apart else call
        tracked = context.sessions is not None
        run = ParallelMap(upstream, calls, number, threads, True, tracked=tracked)
        return tuned_run(run, run.resize, meter)


class _MapBatchesIterator(OneToOneIterator, RowsIterator):
    def __init__(self, upstream: OpIterator, call: StackedFunction, number: int) -> None:
        super().__init__(upstream, number)
        self._call = call

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        return self.made(n, self._upstream.rows, self._call.call_rows)

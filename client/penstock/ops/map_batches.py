"""`map_batches`: a function of many elements at once, stacked.

State: ``[elements so far, the input's state]``; the first is the number for errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import OneToOneIterator, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.executors.function import wants_rng
from penstock.executors.process_function import ProcessFunction
from penstock.executors.stacked_function import Stacked, StackedFunction
from penstock.graph.node import Node, function
from penstock.ops.internal.parallel_map import ParallelMap
from penstock.ops.map import check_calls, threads_of, tuned_run


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
        threads, meter = threads_of(context.tuned, self.parallel, self.executor)
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

"""`map_batches`: a function of many elements at once, stacked.

State: ``[elements so far, the input's state]``; the first is the number for errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.autotune.meter import Meter
from penstock.autotune.tuning import Tuning
from penstock.engine.context import Context
from penstock.engine.iterator import OneToOneIterator, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.executors.function import wants_rng
from penstock.executors.process_function import ProcessFunction
from penstock.executors.stacked_function import Stacked, StackedFunction
from penstock.graph.node import Node, function
from penstock.ops.internal.parallel_map import ParallelMap
from penstock.ops.map import TunedIterator
from penstock.options import check_count_or_auto


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
        if not callable(self.fn):
            raise DatasetError(f"map_batches: fn must be callable, not {self.fn!r}")
        if wants_rng(self.fn):
            raise DatasetError(
                "map_batches: a generator rng is one element's, and fn gets many at once: use map, "
                "or pair the elements with Dataset.random(seed) by zip"
            )
        if self.parallel is not None:
            parallel = check_count_or_auto("map_batches", "num_parallel_calls", self.parallel)
            object.__setattr__(self, "parallel", parallel)
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
        threads, meter = self._threads(context.tuned, apart=apart)
        calls = ProcessFunction.of(Stacked(self.fn), self.label, 0) if apart else call
        tracked = context.sessions is not None
        run = ParallelMap(upstream, calls, number, threads, True, tracked=tracked)
        return run if meter is None else TunedIterator(run, run.resize, meter)

    def _threads(self, tuned: Tuning, *, apart: bool) -> tuple[int, Meter | None]:
        if apart:  # a thread for each process
            return tuned.processes(self.parallel or 1), None
        return tuned.threads(self.parallel or 1)


class _MapBatchesIterator(OneToOneIterator, RowsIterator):
    def __init__(self, upstream: OpIterator, call: StackedFunction, number: int) -> None:
        super().__init__(upstream, number)
        self._call = call

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if self._due is not None:
            self._raise()
        block = self._inputs or self._upstream.rows(n)
        out, failed = self._call.call_rows(block[:n], self._number)
        self._number += len(out)
        self._inputs = block[len(out) :]
        if failed is not None:
            self._due = failed
            del failed  # or the error would keep this frame, and with it the iterator, forever
            if not out:
                self._raise()
        return out

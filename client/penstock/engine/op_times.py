"""How long the operators of a run work and wait: each by itself, without those below it.

What an operator does in the thread that asks it is timed around `OpIterator.block` and `rows`;
calls that it has made by threads of its own it reports itself (`OpIterator.report_calls`). Whoever
waits inside a block says so (`waited`), and that is no work.

Inner datasets (of `flat_map` and `interleave`) are not timed apart: they are their operator's work.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.engine.iterator import OpIterator
from penstock.engine.rows import Block


@dataclass(slots=True)
class OpTime:
    """One operator: the seconds it *worked*, in all threads, and *waited* in that of its caller.

    Several threads may add at one time: a sum may lack one of them, rarely.
    """

    label: str
    elements: int = 0
    worked: float = 0.0
    waited: float = 0.0

    def add_work(self, seconds: float) -> None:
        """Add what a thread of the operator's own did."""
        self.worked += seconds


@dataclass(slots=True)
class _Call:
    """A call of an operator that a thread is in."""

    row: OpTime
    below: float = 0.0
    """Seconds that the operators below it took."""
    waited: float = 0.0


class _ThisThread(threading.local):
    call: _Call | None = None


_here = _ThisThread()


def waited(seconds: float) -> None:
    """Record that the operator which this thread is in has waited for another thread or process."""
    if (call := _here.call) is not None:
        call.waited += seconds


@dataclass(slots=True)
class OpTimes:
    """The operators of one run, by their paths: "" is the outermost."""

    operators: dict[str, OpTime] = field(default_factory=dict)

    def watch(self, running: OpIterator, path: str, label: str) -> None:
        """Time *running*, the operator at *path*, from now on."""
        if "/" in path:
            return  # an inner dataset
        row = self.operators.get(path)
        if row is None:
            row = self.operators[path] = OpTime(label)
        running.report_calls(row.add_work)
        kind = type(running)
        call = _Call(row)
        running.block = _timed(running, kind.block, call)  # type: ignore[method-assign, assignment]
        if kind.rows is not OpIterator.rows:  # that one calls `block`
            running.rows = _timed(running, kind.rows, call)  # type: ignore[method-assign, assignment]


def _timed(
    running: OpIterator, method: Callable[[OpIterator, int], Block], mine: _Call
) -> Callable[[int], Block]:
    # By a weak reference: an operator that holds itself would not be closed when it is dropped.
    # One record for all calls, of which there is one at a time: this is on the way of each block.
    known, now, here, row = weakref.ref(running), time.perf_counter, _here, mine.row

    def timed(n: int) -> Block:
        before = here.call
        if before is mine:  # it calls itself: `block` does `rows`
            return method(known(), n)  # type: ignore[arg-type]  # it is being called
        here.call = mine
        began = now()
        try:
            out = method(known(), n)  # type: ignore[arg-type]  # it is being called
            row.elements += len(out)
            return out
        finally:
            seconds = now() - began
            here.call = before
            if before is not None:
                before.below += seconds
            seconds -= mine.below
            mine.below = 0.0
            if mine.waited:
                row.waited += mine.waited
                seconds -= mine.waited
                mine.waited = 0.0
            if seconds > 0:
                row.worked += seconds

    return timed

"""How long the operators of a run work and wait: each by itself, without those below it.

An operator's work in its caller's thread is timed around `OpIterator.block` and `rows`. An operator
reports calls in its own threads itself (`OpIterator.report_calls`). An operator that waits inside a
block says so (`begin_wait`, `waited`), and the wait does not count as work.

A call that has not returned yet counts up to now: a function that never returns is work that grows.

For calls that take at least `SLOW` seconds, processor time is measured too: a function that reads
a network takes hardly any. Time for which a thread was ready and had no core counts as computing.

Inner datasets (of `flat_map` and `interleave`) are not timed separately: their time is their
operator's work.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from penstock.engine.iterator import OpIterator
from penstock.engine.rows import Block
from penstock.runtime.cores import CoreWait
from penstock.runtime.interrupts import breathe


@dataclass(slots=True)
class OpTime:
    """One operator: the seconds it *worked*, in all threads, and *waited* in that of its caller.

    Several threads may add at one time: a sum may lack one of them, rarely.
    """

    label: str
    elements: int = 0
    worked: float = 0.0
    waited: float = 0.0
    measured: float = 0.0
    """Seconds of work for which processor time was measured."""
    cpu: float = 0.0
    """The processor time of that work."""
    needed: float = 0.0
    """`cpu` plus the time for which a thread was ready and had no core."""
    counted: float = 0.0
    """How much of `cpu` is in `needed`."""
    calls: dict[int, float] = field(default_factory=dict)
    """The start times of calls that the operator's own threads are in, by thread."""

    def begin_call(self) -> None:
        """Record that one of the operator's own threads is in a call from now on."""
        self.calls[threading.get_ident()] = time.perf_counter()

    def share_computed(self, crowded: float) -> float:
        """Return the share of its work for which it needed a core, from 0 to 1.

        Recently, computing took *crowded* times as long because cores were missing.
        """
        cpu = self.cpu
        self.needed += crowded * (cpu - self.counted)
        self.counted = cpu
        return min(1.0, self.needed / self.measured) if self.measured > 0 else 1.0

    def end_call(self, seconds: float, cpu: float) -> None:
        """Record that this thread's call has ended; it took *seconds* and that processor time."""
        self.calls.pop(threading.get_ident(), None)
        self.worked += seconds
        self.measured += seconds
        self.cpu += cpu


class OpTimeNow(NamedTuple):
    """The work of an operator until now; *call* is the age of its oldest unreturned call, in s.

    *call* is 0 if the operator is in no call, or waits in it. For *cpu* seconds of its work it
    needed a core; if that was not measured, *cpu* is all of its work.
    """

    path: str
    label: str
    elements: int
    worked: float
    waited: float
    call: float
    cpu: float


@dataclass(slots=True)
class _Call:
    """A call of an operator that a thread is in, or the last one that it was in."""

    row: OpTime
    below: float = 0.0
    """Seconds that the operators below it took."""
    waited: float = 0.0
    began: float = 0.0
    """When the call began; 0 while there is none."""
    waits_since: float = 0.0
    """The time since which it waits; 0 while it does not wait."""
    slow: bool = False
    """Whether the previous call took `SLOW`; if so, this call's processor time is measured."""
    cpu_below: float = 0.0
    """The processor time of the operators below it, as far as it was measured."""
    caller: _Call | None = None

    def begin_cpu(self) -> float:
        """Return this thread's processor time, and begin to measure the operators below."""
        self.cpu_below = 0.0
        return time.thread_time()

    def end_cpu(self, began: float, seconds: float, caller: _Call | None) -> None:
        """Add the processor time since *began*; *seconds* is the call without operators below."""
        used = time.thread_time() - began
        if caller is not None:
            caller.cpu_below += used
        self.row.cpu += max(0.0, used - self.cpu_below)
        self.row.measured += max(0.0, seconds - self.waited)


SLOW = 0.001
"""Processor time is measured for calls of at least this many seconds: it takes two system calls."""


class _ThisThread(threading.local):
    call: _Call | None = None


_here = _ThisThread()


def begin_wait() -> float:
    """Record that the operator which this thread is in waits for others; return the time."""
    now = time.perf_counter()
    if (call := _here.call) is not None:
        call.waits_since = now
    return now


def waited(since: float) -> float:
    """Record that a wait which began then is over; return how long it took, in seconds."""
    seconds = time.perf_counter() - since
    if (call := _here.call) is not None:
        call.waits_since = 0.0
        call.waited += seconds
    return seconds


@dataclass(slots=True)
class OpTimes:
    """The operators of one run, by their paths: "" is the outermost."""

    operators: dict[str, OpTime] = field(default_factory=dict)
    _calls: dict[str, _Call] = field(default_factory=dict)
    """The newest iterator's calls of each."""
    _cores: CoreWait = field(default_factory=CoreWait)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, running: OpIterator, path: str, label: str) -> None:
        """Time *running*, the operator at *path*, from now on."""
        if "/" in path:
            return  # an inner dataset
        row = self.operators.get(path)
        if row is None:
            row = self.operators[path] = OpTime(label)
        running.report_calls(row)
        kind = type(running)
        call = self._calls[path] = _Call(row)
        running.block = _timed(running, kind.block, call)  # type: ignore[method-assign, assignment]
        if kind.rows is not OpIterator.rows:  # that one calls `block`
            running.rows = _timed(running, kind.rows, call)  # type: ignore[method-assign, assignment]

    def now(self) -> tuple[OpTimeNow, ...]:
        """Return what all operators did up to now, from the outermost down. Any thread."""
        now, calls = time.perf_counter(), dict(self._calls)
        below: dict[int, float] = {}
        """For each call: how long its current call of the operator below has taken."""
        for call in calls.values():
            if call.began and (caller := call.caller) is not None and caller.began:
                below[id(caller)] = below.get(id(caller), 0.0) + now - call.began
        with self._looking:
            crowded = self._cores.crowded()
            return tuple(
                _up_to(now, path, row, calls.get(path), below, crowded)
                for path, row in sorted(dict(self.operators).items())
            )


def _up_to(
    now: float,
    path: str,
    row: OpTime,
    call: _Call | None,
    below: dict[int, float],
    crowded: float,
) -> OpTimeNow:
    worked, waited, longest = row.worked, row.waited, 0.0
    for began in tuple(row.calls.values()):
        worked += now - began
        longest = max(longest, now - began)
    if call is not None and call.began:
        waits = now - call.waits_since if call.waits_since else 0.0
        deeper = below.get(id(call), 0.0)
        waited += call.waited + waits
        own = max(0.0, now - call.began - call.below - deeper - call.waited - waits)
        worked += own
        if not waits and not deeper:
            longest = max(longest, own)
    cpu = worked * row.share_computed(crowded)
    return OpTimeNow(path, row.label, row.elements, worked, waited, longest, cpu)


def longest_call(operators: Iterable[OpTimeNow]) -> OpTimeNow | None:
    """Return the operator whose call has not returned for longest, if any is in one."""
    return max((one for one in operators if one.call > 0), key=attrgetter("call"), default=None)


def _timed(
    running: OpIterator, method: Callable[[OpIterator, int], Block], mine: _Call
) -> Callable[[int], Block]:
    # By a weak reference: an operator that holds itself would not be closed when it is dropped.
    # One record for all calls, of which there is one at a time: this is on the way of each block.
    known, now, here, row = weakref.ref(running), time.perf_counter, _here, mine.row

    def timed(n: int) -> Block:
        breathe()
        before = here.call
        if before is mine:  # it calls itself: `block` does `rows`
            return method(known(), n)  # type: ignore[arg-type]  # it is being called
        mine.caller = before
        here.call = mine
        began_cpu = mine.begin_cpu() if mine.slow else None
        mine.began = began = now()
        try:
            out = method(known(), n)  # type: ignore[arg-type]  # it is being called
            row.elements += len(out)
            return out
        finally:
            seconds = now() - began
            mine.began = mine.waits_since = 0.0
            here.call = before
            if before is not None:
                before.below += seconds
            mine.slow = seconds > SLOW
            seconds -= mine.below
            mine.below = 0.0
            if began_cpu is not None:
                mine.end_cpu(began_cpu, seconds, before)
            if mine.waited:
                row.waited += mine.waited
                seconds -= mine.waited
                mine.waited = 0.0
            if seconds > 0:
                row.worked += seconds

    return timed

"""Measure one operator for `threads`: how fast elements come, how long its consumer waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from penstock.autotune.budget import Budget
from penstock.autotune.executors import ExecutorTuner, Move
from penstock.autotune.threads import Period, ThreadChange, ThreadTuner

LEAST_SECONDS = 0.05
"""How long a period is at the least."""

LEAST_ELEMENTS = 4
"""How many elements of each thread a period has at the least."""


FEWEST = 2
"""Processes that calls move to, at the least: one alone would gain nothing."""


class MovableCalls(Protocol):
    """Calls that may be made in processes."""

    def move(self, *, to_processes: bool) -> None:
        """Make the next calls in processes, or in the threads that ask."""
        ...

    def take_seconds(self) -> float:
        """Return the seconds of a core that calls in threads took since this was last asked."""
        ...

    @property
    def callers(self) -> int:
        """How many threads have a process that calls."""
        ...

    @property
    def failed(self) -> bool:
        """Whether there can be no processes."""
        ...


class Meter:
    """Measures one operator for its reader's thread, and says how many threads it should have."""

    def __init__(
        self,
        budget: Budget,
        most: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._budget, self._clock = budget, clock
        self._most = most
        """The most threads that there may be, whatever the budget holds."""
        self._tuner, self._executor = ThreadTuner(), ExecutorTuner()
        self.calls: MovableCalls | None = None
        """The operator's calls, if they may move to processes."""
        self.threads = 1
        self._processes = 0
        """How many of the budget's are for these calls."""
        self._since: float | None = None
        self._entered = 0.0
        self._elements, self._waited = 0, 0.0

    def enter(self) -> None:
        """Record that the reader asks for a block."""
        self._entered = self._clock()
        if self._since is None:
            self._since = self._entered

    def leave(self, elements: int) -> bool:
        """Record that the reader got *elements* elements; return whether `threads` changed."""
        now = self._clock()
        self._elements += elements
        self._waited += now - self._entered
        seconds = now - (now if self._since is None else self._since)
        if seconds < LEAST_SECONDS or self._elements < LEAST_ELEMENTS * self.threads:
            return False
        period = Period(self._elements, seconds, self._waited)
        self._since, self._elements, self._waited = now, 0, 0.0
        if self._processes and self.calls is not None and self.calls.failed:
            self._executor.fail()
            return self._return_calls(self.calls)
        if self._processes > 1 and self._budget.free_processes < 0:  # others need some of them
            return self._leave_some()
        if self.calls is not None and self._executor.on_trial:
            return self._judge(self.calls, period)
        change = self._tuner.step(period, room=self._has_room())
        changed = self._take(change)
        if self.calls is not None and not self._processes:
            busy = self.calls.take_seconds() / seconds
            room = self._budget.free_processes >= FEWEST  # else it is tried when these are free
            if self._executor.untried(period, change, busy, room=room) is Move.TO_PROCESSES:
                return self._try_processes(self.calls)
        return changed

    def close(self) -> None:
        """Give threads and processes back. Idempotent."""
        self._budget.give_threads(self.threads - 1)
        self.threads = 1
        self._leave_processes()

    def _has_room(self) -> bool:
        if self.threads == self._most or not self._budget.has_thread():
            return False
        return not self._processes or self._budget.free_processes > 0

    def _try_processes(self, calls: MovableCalls) -> bool:
        """Move the calls to processes: one for each thread, with a thread more."""
        if not self._take(ThreadChange.MORE):
            self._executor.fail()
            return True
        while self.threads > max(FEWEST, self._budget.free_processes):
            self._take(ThreadChange.FEWER)
        self._processes = self.threads
        self._budget.take_processes(self.threads)
        calls.move(to_processes=True)
        return True

    def _leave_some(self) -> bool:
        """Give a process back; of two, or while they are on trial, all: one alone gains nothing."""
        self._tuner = ThreadTuner()
        if self.calls is not None and (self._executor.on_trial or self._processes == FEWEST):
            self._executor.cut_short()
            return self._return_calls(self.calls)
        return self._take(ThreadChange.FEWER)

    def _return_calls(self, calls: MovableCalls) -> bool:
        """Make the calls in this process again, with one thread less."""
        calls.move(to_processes=False)
        self._leave_processes()
        return self._take(ThreadChange.FEWER) if self.threads > 1 else False

    def _leave_processes(self) -> None:
        self._budget.take_processes(-self._processes)
        self._processes = 0

    def _judge(self, calls: MovableCalls, period: Period) -> bool:
        """Let the calls stay in processes, or return them to one thread, once that is known."""
        ready = calls.callers >= self.threads
        if self._executor.tried(period, ready=ready) is Move.TO_THREADS:
            return self._return_calls(calls)
        if not self._executor.on_trial:
            self._tuner = ThreadTuner()
        return False

    def _take(self, step: ThreadChange) -> bool:
        match step:
            case ThreadChange.STAY:
                return False
            case ThreadChange.FEWER:
                self._budget.give_threads(1)
            case ThreadChange.MORE if not self._budget.take_thread():  # another operator was faster
                return False
        self.threads += step.value
        if self._processes:
            self._processes += step.value
            self._budget.take_processes(step.value)
        return True

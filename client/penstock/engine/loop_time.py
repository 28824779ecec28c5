"""How much of its time a training loop waits for elements, including a wait in progress."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from penstock.engine.op_times import OpTimeNow
from penstock.protocol.loop_time import LoopTime

SPAN, SAMPLES = 1.0, 11
"""Marks are at least `SPAN` seconds apart, and `SAMPLES` marks are kept."""

WINDOW = 10.0
"""The newest figures cover about this number of seconds."""

BUCKETS_A_DOUBLING = 4
"""Buckets of waits for each factor of 2: neighbouring buckets differ by a fifth."""

LEAST = 1e-6

LABEL_TOLD = 250
"""The most characters of an operator's label that are reported."""

TOGETHER = 256
"""Waits that are counted into the buckets at once; the loop itself waits while this is done."""


class _Sums(NamedTuple):
    """The steps and waits of a loop before *since*; if it is *waiting*, its wait began then."""

    steps: int
    waited: float
    since: float
    waiting: bool


class _Mark(NamedTuple):
    """The begin of a span, with the steps, the waits and the work of operators up to then."""

    at: float
    steps: int
    waited: float
    operators: tuple[OpTimeNow, ...] = ()


class _Here(NamedTuple):
    """How long a loop *waited* for its own process, and the operator there that worked longest."""

    waited: float
    label: str
    worked: float
    cpu: float


READS = "distribute"
"""The operator that waits for workers."""


def _here(before: Iterable[OpTimeNow], now: Iterable[OpTimeNow], waited: float) -> _Here:
    """Return the part of *waited* seconds that a loop waited for operators in its own process."""
    known = {one.path: one for one in before}
    far, slowest = 0.0, _Here(0.0, "", 0.0, 0.0)
    for one in now:
        was = known.get(one.path)
        if one.label == READS:
            far += one.waited - (was.waited if was else 0.0)
            continue
        worked = one.worked - (was.worked if was else 0.0)
        if worked > slowest.worked:
            cpu = max(0.0, one.cpu - (was.cpu if was else 0.0))
            slowest = _Here(0.0, one.label, worked, min(worked, cpu))
    return slowest._replace(waited=max(0.0, waited - far))


class LoopClock:
    """Measures one loop. The reading thread calls `ask` and `got`; any thread may read the sums.

    Times are those of `time.perf_counter`; *clock* must return the same.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_ended",
        "_first",
        "_marks",
        "_newest",
        "_span_until",
        "_sums",
        "_waits",
        "_wanted",
        "operators",
        "working_in",
    )

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began: float | None = None
        self._ended: float | None = None
        self._sums = _Sums(0, 0.0, 0.0, False)
        """Replaced as a whole, so that other threads see each wait counted exactly once."""
        self._waits: dict[int, int] = {}
        """The number of waits in each bucket, by the logarithm of their length."""
        self._newest: list[float] = []
        """Waits that are not in `_waits` yet: counting many at once is faster."""
        self._marks: deque[_Mark] = deque(maxlen=SAMPLES)
        self._first: _Mark | None = None
        """The mark after the first element: the wait for that element is part of the start."""
        self._wanted = Steady()
        self._span_until = float("-inf")
        self.operators: Callable[[], tuple[OpTimeNow, ...]] = tuple
        """Returns how long operators of the training process have worked until now."""
        self.working_in: Callable[[], str] = str
        """Returns the operator of the training process that a waiting loop is in, if any."""

    def ask(self, at: float) -> None:
        """Record that the loop waits from now on."""
        steps, waited, _, _ = self._sums
        if at >= self._span_until:
            self._marks.append(_Mark(at, steps, waited, self.operators()))
            if self._began is None:
                self._began = at  # from now on other threads read the marks
            self._span_until = at + SPAN
        self._sums = _Sums(steps, waited, at, True)

    def got(self, until: float, elements: int) -> None:
        """Record that the loop got *elements* elements at the time *until*.

        It takes all but the first of them without a wait.
        """
        steps, waited, asked, _ = self._sums
        wait = until - asked
        if self._first is None:
            self._first = _Mark(until, steps + elements, waited + wait, self.operators())
        self._sums = _Sums(steps + elements, waited + wait, until, False)
        self._newest.append(wait)
        if len(self._newest) >= TOGETHER:
            newest, self._newest = self._newest, []
            _sort_in(newest, self._waits)

    def gave_up(self, until: float) -> None:
        """Record that the wait ended without an element, by an error or an interrupt."""
        steps, waited, asked, waiting = self._sums
        if waiting:
            self._sums = _Sums(steps, waited + until - asked, until, False)

    def end(self, at: float) -> None:
        """Record that the pass is over; the figures do not change any more."""
        self.gave_up(at)
        self._ended = at

    def total(self) -> LoopTime:
        """Return the sums of all steps."""
        if self._began is None:
            return LoopTime()
        return self._between(_Mark(self._began, 0, 0.0), self._now())

    def newest(self) -> LoopTime:
        """Return the sums of about the last ten seconds."""
        if self._began is None:
            return LoopTime()
        now, marks, (steps, waited, since, waiting) = self._now(), tuple(self._marks), self._sums
        if waiting:
            marks = (*marks, _Mark(since, steps, waited, marks[-1].operators))
        old = (mark for mark in reversed(marks) if mark.at <= now - WINDOW)
        mark = next(old, marks[0])
        found = self._between(mark, now)
        if (first := self._first) is not None:
            behind = self._between(max(first, mark, key=attrgetter("at")), now)
            return replace(found, wanted=self._wanted.of(behind))
        return replace(found, wanted=UNKNOWN)

    def _now(self) -> float:
        return self._clock() if self._ended is None else self._ended

    def _between(self, mark: _Mark, now: float) -> LoopTime:
        steps, waited, since, waiting = self._sums
        began, steps_before, waited_before, operators_before = mark
        open_wait = max(0.0, now - since) if waiting else 0.0
        all_waited = max(0.0, waited + open_wait - waited_before)
        here = _here(operators_before, self.operators(), all_waited)
        return LoopTime(
            steps=max(0, steps - steps_before),
            seconds=max(0.0, now - began),
            waited=all_waited,
            p50=self._wait(0.5),
            p99=self._wait(0.99),
            waiting=open_wait,
            total=steps,
            waited_here=here.waited,
            slowest_here=here.label[:LABEL_TOLD],
            worked_here=here.worked,
            cpu_here=here.cpu,
        )

    def _wait(self, share: float) -> float:
        """Return the longest wait among the *share* of all steps that waited least, in seconds."""
        waits, newest = dict(self._waits), self._newest  # the loop's thread may add to them
        _sort_in(list(newest), waits)
        steps = self._sums.steps
        at_once = steps - sum(waits.values())
        left = share * steps - at_once
        for at, count in sorted(waits.items()):
            if left <= 0:
                break
            left -= count
            longest = 2 ** (at / BUCKETS_A_DOUBLING)
            if left <= 0:
                return longest
        return 0.0


def _sort_in(newest: list[float], waits: dict[int, int]) -> None:
    """Count each wait in the bucket of its length."""
    for wait in newest:
        at = round(BUCKETS_A_DOUBLING * math.log2(max(wait, LEAST)))
        waits[at] = waits.get(at, 0) + 1


OFF_BY = 4 / 3
"""The number does not change while the measurement is within this factor of it."""

MOST_WAIT = 0.98
"""A loop that waits longer says little of how fast it could be."""

LEAST_STEPS = 10
"""The number is unknown until the loop has had this number of elements."""

UNKNOWN = -1.0
"""The number before it is known."""

YOUNG = 2.0
"""No number is kept in the first seconds of a loop, because workers have just begun."""


class Steady:
    """A loop that waits for the share w of its time could take 1 / (1 - w) times as much."""

    def __init__(self) -> None:
        self._held = 0.0

    def of(self, measured: LoopTime) -> float:
        """Return the number for a loop that waited like that of late, or `UNKNOWN`."""
        if measured.steps < LEAST_STEPS:
            return self._held or UNKNOWN
        wanted = 1 / (1 - min(MOST_WAIT, measured.share))
        if measured.seconds < YOUNG:
            return self._held or wanted
        if not self._held / OFF_BY <= wanted <= self._held * OFF_BY:
            self._held = wanted
        return self._held

"""What an attempt knows of its runners: how often they died, how long their operators worked."""

from __future__ import annotations

from collections import deque

import msgspec

from penstock.protocol.measures import Measure, merged
from penstock.protocol.types import IterationId, TaskId
from penstock_worker.runner.messages import OperatorTime, TimesMeasured

DEATHS = 3
"""The attempt fails after this many deaths without a new element."""

PAUSE = 0.1
"""Seconds from the start of one runner to that of the next, at least."""

TRIES = (0.1, 0.5, 2.0)
"""Pauses in seconds before a runner is tried again when the system has no room for one."""


class RestartPolicy:
    """Counts the deaths of an attempt's runners, and how often there was no room for one."""

    def __init__(self) -> None:
        self.lacking = ""
        """Why there was no room for the newest one, as long as that is so."""
        self._tries, self._short_at = 0, -1
        """How often in a row, with element *_short_at* the next."""
        self.deaths = 0
        """How many there were in a row at one element."""
        self._place = -1
        self._begun: float | None = None

    @property
    def flush_each(self) -> bool:
        """Whether a runner died before, and so may again."""
        return self.deaths > 0

    def next_delay(self, now: float) -> float:
        """Record the start of another one; return in how many seconds it should be."""
        pause = TRIES[self._tries - 1] if self.lacking else PAUSE
        after = 0.0 if self._begun is None else max(0.0, self._begun + pause - now)
        self._begun = now + after
        return after

    def may_retry(self, why: str, head: int) -> bool:
        """Record that none could be had, or could not go on, when *head* was the next number.

        Return whether to try again here, and not elsewhere.
        """
        self.lacking = why
        # Who begins, and then has no room for a thread, has reported something each time.
        self._tries = self._tries + 1 if head == self._short_at else 1
        self._short_at = head
        return self._tries <= len(TRIES)

    def on_first_report(self) -> None:
        """Record that there is one."""
        self.lacking = ""

    def may_restart(self, head: int) -> bool:
        """Count a death when *head* was the next number; return whether to start another one."""
        self.deaths = self.deaths + 1 if head == self._place else 1
        self._place = head
        return self.deaths < DEATHS


WINDOW, KEPT = 10.0, 16
"""Seconds that the newest times cover, and how many reports are kept, at one a second."""


class RunnerTimes:
    """The newest reports of one runner; operators of the runners *before* it counted measures."""

    def __init__(self, before: tuple[Measure, ...] = ()) -> None:
        self._before = before
        self._reports: deque[TimesMeasured] = deque(maxlen=KEPT)

    def add(self, report: TimesMeasured) -> None:
        """Add a report, which has sums since the runner began."""
        self._reports.append(report)

    @property
    def whole(self) -> TimesMeasured | None:
        """The sums since the runner began, or None before its first report."""
        return self._reports[-1] if self._reports else None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The sums that operators counted in this runner and in those before it."""
        last = self.whole
        return self._before if last is None else merged(self._before, last.measures)

    @property
    def newest(self) -> TimesMeasured | None:
        """The times of about the last ten seconds before the newest report."""
        last = self.whole
        if last is None or last.seconds <= WINDOW:
            return last
        since = last.seconds - WINDOW
        old = (one for one in reversed(self._reports) if one.seconds <= since)
        return _between(next(old, self._reports[0]), last)


class PastTimes:
    """The times of the attempts that ended last: a short one ends before it can report."""

    def __init__(self) -> None:
        self.known: deque[tuple[IterationId, TaskId, TimesMeasured]] = deque(maxlen=KEPT)

    def add(self, iteration: IterationId, task: TaskId, times: TimesMeasured | None) -> None:
        """Keep the *times* of an attempt that is over, if it reported any."""
        if times is not None:
            self.known.append((iteration, task, times))


def _between(before: TimesMeasured, last: TimesMeasured) -> TimesMeasured:
    known = {one.path: one for one in before.operators}
    if before is last:
        return last
    return msgspec.structs.replace(
        last,
        seconds=last.seconds - before.seconds,
        held_up=max(0.0, last.held_up - before.held_up),
        starved=max(0.0, last.starved - before.starved),
        remote=max(0.0, last.remote - before.remote),
        operators=tuple(_since(known.get(one.path), one) for one in last.operators),
    )


def _since(before: OperatorTime | None, last: OperatorTime) -> OperatorTime:
    if before is None:
        return last
    return msgspec.structs.replace(
        last,
        elements=max(0, last.elements - before.elements),
        worked=max(0.0, last.worked - before.worked),
        waited=max(0.0, last.waited - before.waited),
        cpu=None if last.cpu is None else max(0.0, last.cpu - (before.cpu or 0.0)),
    )

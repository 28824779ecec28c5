"""How long the operators of a runner worked: since it began, and recently."""

from __future__ import annotations

from collections import deque

import msgspec

from penstock.protocol.types import IterationId, TaskId
from penstock_worker.runner.messages import OperatorTime, TimesMeasured

WINDOW, KEPT = 10.0, 16
"""Seconds that the newest times cover, and how many reports are kept, at one a second."""


class RunnerTimes:
    """The newest reports of one runner."""

    def __init__(self) -> None:
        self._reports: deque[TimesMeasured] = deque(maxlen=KEPT)

    def add(self, report: TimesMeasured) -> None:
        """Add a report, which has sums since the runner began."""
        self._reports.append(report)

    @property
    def whole(self) -> TimesMeasured | None:
        """The sums since the runner began, or None before its first report."""
        return self._reports[-1] if self._reports else None

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

"""Counts by job that never fall: also when passes are forgotten, and jobs are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Final

from penstock.protocol.types import IterationId
from penstock_dispatcher.core.account import Account

UNNAMED: Final = "(unnamed)"
"""Stands for all jobs without a name."""

OTHERS: Final = "(others)"
"""Stands for all jobs beyond the first `MOST_JOBS`."""

MOST_JOBS = 100
"""Jobs that are told apart; each has about twenty series."""


@dataclass(frozen=True, slots=True)
class JobCounts:
    """What became of elements, of passes together; see `Account`."""

    elements: int = 0
    produced: int = 0
    replayed: int = 0
    sent: int = 0
    requeued: int = 0
    acked: int = 0
    consumed: int = 0
    redelivered: int = 0
    in_doubt: int = 0
    skipped: int = 0
    errors: int = 0
    lost: int = 0
    splits: int = 0

    @classmethod
    def of(cls, account: Account) -> JobCounts:
        """Return the counts of *account*."""
        return cls(*(getattr(account, name) for name in NAMES))

    def plus(self, other: JobCounts) -> JobCounts:
        """Return the sums."""
        return JobCounts(*(getattr(self, name) + getattr(other, name) for name in NAMES))

    def at_least(self, other: JobCounts) -> JobCounts:
        """Return the greater of each: of a pass, what was counted before is not taken back."""
        return JobCounts(*(max(getattr(self, name), getattr(other, name)) for name in NAMES))


NAMES: Final = tuple(each.name for each in fields(JobCounts))


@dataclass(slots=True)
class JobTotals:
    """Sums by job since the process began, of all passes that it was shown.

    Of those that are restored, or go on behind a restart, what they had before counts, too.
    """

    _running: dict[IterationId, tuple[str, JobCounts]] = field(default_factory=dict)
    _over: defaultdict[str, JobCounts] = field(
        default_factory=lambda: defaultdict[str, JobCounts](JobCounts)
    )
    _known: set[str] = field(default_factory=set)

    def label(self, job: str, *, private: bool) -> str:
        """Return what *job* is called in metrics; the first `MOST_JOBS` have their own names."""
        if private:
            return UNNAMED
        if job not in self._known:
            if len(self._known) >= MOST_JOBS:
                return OTHERS
            self._known.add(job)
        return job

    def note(self, iteration: IterationId, label: str, counts: JobCounts) -> None:
        """Take *counts* as those of a pass now."""
        known = self._running.get(iteration)
        self._running[iteration] = (label, counts if known is None else counts.at_least(known[1]))

    def keep(self, iterations: Iterable[IterationId]) -> None:
        """Take it that passes other than *iterations* are forgotten; their counts stay."""
        for gone in self._running.keys() - set(iterations):
            label, counts = self._running.pop(gone)
            self._over[label] = self._over[label].plus(counts)

    def by_job(self) -> dict[str, JobCounts]:
        """Return the sums, by label."""
        sums = dict(self._over)
        for label, counts in self._running.values():
            sums[label] = sums.get(label, JobCounts()).plus(counts)
        return sums

"""Once a second, a look at all passes: so that a scrape only writes down their results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from penstock.protocol.loop_time import LoopTime
from penstock.protocol.types import IterationId
from penstock.runtime.clock import now
from penstock_dispatcher.core import account, mixture_stats, slots
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.counting import CURRENT
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.state_machine import DispatcherCore

UNNAMED: Final = "(unnamed)"
"""Stands for all jobs without a name."""

OTHERS: Final = "(others)"
"""Stands for all jobs beyond the first `MOST_JOBS`."""

MOST_JOBS = 100
"""Jobs that are told apart; each has about twenty series."""

MOST_SOURCES = 50
"""The most sources of a job's mixture that are told apart; each has two series."""


COUNTED: Final = (
    "elements",
    "produced",
    "replayed",
    "sent",
    "requeued",
    "acked",
    "consumed",
    "redelivered",
    "in_doubt",
    "skipped",
    "errors",
    "lost",
    "splits",
)
"""The fields of `Account` that are summed up by job."""


MOST_OPERATORS = 8
"""The most operators of a job whose measures are told apart; each has at most five series."""


class OperatorCount(NamedTuple):
    """A measure in metrics: how much an operator counted under *name*, in *unit*."""

    name: str
    operator: str
    unit: str


CountKey: TypeAlias = str | OperatorCount
"""A field of `Account`, or a measure."""


def counts_of(balance: Account) -> Counter[CountKey]:
    """Return the counts of a pass that are summed up by job."""
    counts = Counter[CountKey]({each: getattr(balance, each) for each in COUNTED})
    operators = dict.fromkeys(each.operator for each in balance.measures)
    told = frozenset(islice(operators, MOST_OPERATORS))
    for each in balance.measures:
        if each.operator in told:
            key = OperatorCount(each.name, each.operator, each.unit)
            counts[key] += each.sum  # type: ignore[assignment]  # costs are no whole numbers
    return counts


@dataclass(slots=True)
class JobTotals:
    """Sums by job since the process began, of all passes that it was shown.

    If a pass was restored, or continues after a restart, its earlier elements count, too.
    """

    _running: dict[IterationId, tuple[str, Counter[CountKey]]] = field(default_factory=dict)
    _over: dict[str, Counter[CountKey]] = field(default_factory=dict)
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

    def note(self, iteration: IterationId, label: str, counts: Counter[CountKey]) -> None:
        """Take *counts* as those of a pass now; earlier counts are not taken back."""
        known = self._running.get(iteration)
        self._running[iteration] = (label, counts if known is None else counts | known[1])

    def keep(self, iterations: Iterable[IterationId]) -> None:
        """Take it that passes other than *iterations* are forgotten; their counts stay."""
        for gone in self._running.keys() - set(iterations):
            label, counts = self._running.pop(gone)
            self._over[label] = self._over.get(label, Counter()) + counts

    def by_job(self) -> dict[str, Counter[CountKey]]:
        """Return the sums, by label."""
        sums = dict(self._over)
        for label, counts in self._running.values():
            sums[label] = sums.get(label, Counter()) + counts
        return sums


log = logging.getLogger("penstock.http")

EVERY = 1.0
"""Seconds between two looks, at least."""

AT_MOST = 200
"""A look is followed by a pause of this many times its duration: half a per cent."""

TURN = 0.002
"""Seconds of looking, at most about, before others have the event loop."""


@dataclass(slots=True)
class JobNow:
    """A job at one moment: its passes that run, their readers, and how these wait."""

    iterations: int = 0
    readers: int = 0
    iterations_unread: int = 0
    """Passes that run and that nobody reads."""
    iterations_unbalanced: int = 0
    """Passes that are over, and whose account does not balance."""
    readers_lost: int = 0
    """Readers that died, and in whose place none has come."""
    waited: float = 0.0
    """Seconds that loops waited, of late: of readers that are heard."""
    looped: float = 0.0
    """The seconds that is a part of."""
    longest_wait: float = 0.0
    """Seconds of the longest current wait of a loop for its next element."""
    sources: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By source of its mixture: the wanted share, and the elements that tasks were granted."""

    @property
    def wait_ratio(self) -> float | None:
        """The share of their time that its loops wait, from 0 to 1; None if none of them is heard.

        So an alert and an autoscaler see that nothing is known, and no old figure.
        """
        return min(1.0, self.waited / self.looped) if self.looped > 0 else None


@dataclass(slots=True)
class Sample:
    """The results of one look."""

    jobs: dict[str, JobNow] = field(default_factory=lambda: defaultdict(JobNow))
    slots: int = 0
    slots_used: int = 0
    tasks: int = 0
    """Of passes that run, not done."""
    waiting_tasks: int = 0
    """Tasks among them that no worker makes."""


class Sampler:
    """Looks at what *core* decided; the newest whole look is *sample*."""

    def __init__(self, core: DispatcherCore, clock: Callable[[], float] = now) -> None:
        self._core, self._clock = core, clock
        self.totals = JobTotals()
        self.sample = Sample()
        self._over = dict[IterationId, bool]()
        """Passes whose account is final, and whether it does not balance."""

    async def look_forever(self) -> None:
        """Look once a second, or less often where that takes long; until cancelled."""
        while True:
            took = await self._look()
            await asyncio.sleep(max(EVERY, AT_MOST * took))

    async def _look(self) -> float:
        sample, took, began = Sample(), 0.0, time.perf_counter()
        for _ in self._steps(sample):
            if (worked := time.perf_counter() - began) > TURN:
                took += worked
                await asyncio.sleep(0)
                began = time.perf_counter()
        self.sample = sample
        return took + time.perf_counter() - began

    def look(self) -> Sample:
        """Look here and now."""
        sample = Sample()
        for _ in self._steps(sample):
            pass
        self.sample = sample
        return sample

    def _steps(self, sample: Sample) -> Iterator[None]:
        state, soft = self._core.state, self._core.ctx.soft_state
        for name in list(state.iterations):
            if (iteration := state.iterations.get(name)) is not None:
                self._pass(name, iteration, sample)
                yield
        self.totals.keep(state.iterations)
        for gone in self._over.keys() - state.iterations.keys():
            del self._over[gone]
        for address, worker in list(state.workers.items()):
            sample.slots += worker.slots
            sample.slots_used += slots.slots_used(state, soft, address)
            yield

    def _pass(self, name: IterationId, iteration: IterationRecord, sample: Sample) -> None:
        state, soft = self._core.state, self._core.ctx.soft_state
        job = state.jobs.get(iteration.job)
        label = self.totals.label(iteration.job, private=job is None or job.private)
        job_now = sample.jobs[label]
        if name not in self._over:
            balance = account.of(iteration, soft)
            self.totals.note(name, label, counts_of(balance))
            if iteration.finished and not balance.unreported:
                self._over[name] = bool(balance.faults())
        job_now.iterations_unbalanced += self._over.get(name, False)
        if iteration.finished:
            return
        job_now.iterations += 1
        if label not in (UNNAMED, OTHERS):
            for mixture in mixture_stats.mixtures_of(iteration):
                known = {one.name: (one.wanted, one.handed) for one in mixture.sources}
                job_now.sources |= dict(islice(known.items(), MOST_SOURCES))
        job_now.iterations_unread += not iteration.live
        job_now.readers_lost += iteration.unreplaced
        for reader in iteration.live:
            if (liveness := soft.readers.get(reader)) is not None:
                job_now.readers += 1
                if soft.silence(liveness.seen, self._clock()) <= CURRENT:
                    _add_loop(job_now, liveness.newest.loop)
        for task in iteration.tasks.values():
            sample.tasks += not task.done
            sample.waiting_tasks += not task.done and task.worker is None


def _add_loop(job: JobNow, loop: LoopTime | None) -> None:
    if loop is not None:
        job.waited += loop.waited
        job.looped += loop.seconds
        job.longest_wait = max(job.longest_wait, loop.waiting)


@asynccontextmanager
async def sampling(sampler: Sampler) -> AsyncIterator[None]:
    """Have *sampler* look again and again while the block lasts."""
    looking = asyncio.create_task(sampler.look_forever(), name="sampler")
    looking.add_done_callback(_tell)
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait({looking})


def _tell(looking: asyncio.Task[None]) -> None:
    """Log why nothing is sampled any more: metrics stay as they are from then on."""
    if not looking.cancelled() and (error := looking.exception()) is not None:
        log.error("metrics by job stay as they are: looking failed", exc_info=error)

"""A load at work: readers started and stopped phase by phase, their reports gathered."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from loadtest.histogram import Histogram
from loadtest.mesh import Churn, Watch
from loadtest.plan import Load, Phase
from loadtest.reading import REPORT_EVERY, Input, Seen, read
from loadtest.report import HalfSecond, PhaseResult, Result

STOP_WITHIN = 5.0
"""Seconds that a process of readers gets to leave."""

PROCESSES = 4 * (os.cpu_count() or 1)
"""Readers are a process each, up to so many; beyond, several are threads of one."""

Show = Callable[[Result, Phase, str], None]
"""Is told twice a second how the load goes, and what happened last."""


@dataclass(slots=True)
class Readers:
    """A process of so many *count* readers as its starter sees it; *asked* is as in `Seen`."""

    process: BaseProcess
    reports: Connection
    count: int = 1
    ready: bool = False
    asked: tuple[float, ...] = ()
    failed: bool = False
    """Whether one of them said why it ends."""


class Run:
    """One run of a load against a cluster."""

    def __init__(self, what: Input, load: Load, show: Show) -> None:
        self.result = Result()
        self._what, self._load, self._show = what, load, show
        self._processes: list[Readers] = []
        self._each = -(-load.most_readers // PROCESSES)
        self._numbers = itertools.count()
        self._watch = Watch(what.target)
        self._churn = Churn(what.target)
        self._began = time.monotonic()
        self._churn_at = self._began + load.churn
        self._news = ""

    @property
    def readers(self) -> int:
        """How many there are now."""
        return sum(process.count for process in self._processes)

    def go(self) -> Result:
        """Run all phases; return what they showed, also when Ctrl-C cuts them short."""
        try:
            with self._watch.going(), suppress(KeyboardInterrupt):
                for phase in self._load.phases:
                    self._phase(phase)
        finally:
            self._stop(0)
            self._churn.close()
            self.result.joined, self.result.left = self._churn.joined, self._churn.left
            self.result.answers = self._watch.answers
        return self.result

    def _phase(self, phase: Phase) -> None:
        shown = PhaseResult(phase.name, phase.readers)
        self.result.phases.append(shown)
        self._stop(phase.readers)
        while (missing := phase.readers - self.readers) > 0:
            self._start(min(missing, self._each), phase.rate)
        while starting := sum(one.count for one in self._processes if not one.ready):
            moment = self._gather(REPORT_EVERY)
            self._note(phase, moment)
            self._show(self.result, phase, self._watch.trouble or f"{starting} readers start")
        began = time.monotonic()
        self._churn_at = began + self._load.churn
        while (now := time.monotonic()) < began + phase.seconds and self._processes:
            self._maybe_churn(now)
            moment = self._gather(REPORT_EVERY)
            shown.seconds = time.monotonic() - began
            shown.elements += moment.elements
            shown.nbytes += moment.nbytes
            shown.waits.merge(moment.waits)
            self._note(phase, moment)
            self._show(self.result, phase, self._watch.trouble or self._news)
        shown.waits.merge(self._unended())

    def _unended(self) -> Histogram:
        """Return the waits that have not ended, as long as they are now."""
        waits, now = Histogram(), time.monotonic()
        for process in self._processes:
            for asked in process.asked:
                waits.add(now - asked)
        return waits

    def _start(self, count: int, rate: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        reports, far = spawn.Pipe(duplex=False)
        whats = [self._next_input() for _ in range(count)]
        process = spawn.Process(target=read, args=(whats, rate, far), daemon=True)
        process.start()
        far.close()
        self._processes.append(Readers(process, reports, count))

    def _next_input(self) -> Input:
        """Return what the next reader reads: jobs take turns."""
        job = self._what.job_name
        if job is None or not self._load.jobs:
            return replace(self._what, job_name=None)
        return replace(self._what, job_name=f"{job}-{next(self._numbers) % self._load.jobs}")

    def _stop(self, most: int) -> None:
        """End processes until there are *most* readers, or fewer."""
        leaving = []
        while self.readers > most:
            leaving.append(self._processes.pop())
        for readers in leaving:
            readers.process.terminate()
        for readers in leaving:
            readers.process.join(STOP_WITHIN)
            readers.process.kill()
            readers.reports.close()

    def _gather(self, seconds: float) -> Seen:
        """Add up what readers report within so many *seconds*."""
        until, total = time.monotonic() + seconds, Seen()
        while (left := until - time.monotonic()) > 0:
            open_ends = {readers.reports: readers for readers in self._processes}
            if not open_ends:
                break
            for end in wait(list(open_ends), left):
                readers = open_ends[cast("Connection", end)]
                try:
                    seen = cast("Seen", readers.reports.recv())
                except (EOFError, OSError):
                    self._lost(readers)
                    continue
                readers.ready, readers.asked = seen.ready, seen.asked
                readers.failed = readers.failed or bool(seen.errors)
                self.result.errors += seen.errors
                total.add(seen)
        return total

    def _lost(self, readers: Readers) -> None:
        """Know that the process of *readers* is gone, which nobody told it to be."""
        self._processes.remove(readers)
        readers.reports.close()
        if not readers.failed:
            readers.process.join(STOP_WITHIN)
            code = readers.process.exitcode
            self.result.errors.append(f"a reader ended with exit code {code}, and did not say why")

    def _note(self, phase: Phase, seen: Seen) -> None:
        waits = self._unended()
        waits.merge(seen.waits)
        moment = HalfSecond(
            time.monotonic() - self._began,
            phase.name,
            self.readers,
            seen.elements,
            seen.nbytes,
            waits.quantile(0.5) or 0.0,
            waits.quantile(0.99) or 0.0,
            dict(self._watch.costs),
        )
        self.result.moments.append(moment)

    def _maybe_churn(self, now: float) -> None:
        if self._load.churn and now >= self._churn_at:
            self._news = self._churn.step()
            self._churn_at = time.monotonic() + self._load.churn

"""A load at work: readers started and stopped phase by phase, their reports gathered."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from loadtest.histogram import Histogram
from loadtest.mesh import Churn, Watch
from loadtest.plan import Load, Phase
from loadtest.reading import REPORT_EVERY, Input, Seen, read
from loadtest.report import Moment, PhaseResult, Result

STOP_WITHIN = 5.0
"""Seconds that a reader gets to leave."""

Show = Callable[[Result, Phase, str], None]
"""Is told twice a second how the load goes, and what happened last."""


@dataclass(slots=True)
class Reader:
    """A simulated reader as its starter sees it; *asked* is as in `Seen`."""

    process: BaseProcess
    reports: Connection
    ready: bool = False
    asked: float | None = None
    failed: bool = False
    """Whether it said why it ends."""


class Run:
    """One run of a load against a cluster."""

    def __init__(self, what: Input, load: Load, show: Show) -> None:
        self.result = Result()
        self._what, self._load, self._show = what, load, show
        self._readers: list[Reader] = []
        self._watch = Watch(what.target)
        self._churn = Churn(what.target)
        self._began = time.monotonic()
        self._churn_at = self._began + load.churn
        self._news = ""

    def go(self) -> Result:
        """Run all phases; return what they showed, also when Ctrl-C cuts them short."""
        try:
            with self._watch.going(), suppress(KeyboardInterrupt):
                for phase in self._load.phases:
                    self._phase(phase)
        finally:
            self._stop(len(self._readers))
            self._churn.close()
            self.result.joined, self.result.left = self._churn.joined, self._churn.left
        return self.result

    def _phase(self, phase: Phase) -> None:
        shown = PhaseResult(phase.name, phase.readers)
        self.result.phases.append(shown)
        self._stop(len(self._readers) - phase.readers)
        while len(self._readers) < phase.readers:
            self._start(phase.rate)
        while starting := sum(not reader.ready for reader in self._readers):
            moment = self._gather(REPORT_EVERY)
            self._note(phase, moment)
            self._show(self.result, phase, self._watch.trouble or f"{starting} readers start")
        began = time.monotonic()
        self._churn_at = began + self._load.churn
        while (now := time.monotonic()) < began + phase.seconds and self._readers:
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
        for reader in self._readers:
            if reader.asked is not None:
                waits.add(now - reader.asked)
        return waits

    def _start(self, rate: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        reports, far = spawn.Pipe(duplex=False)
        process = spawn.Process(target=read, args=(self._what, rate, far), daemon=True)
        process.start()
        far.close()
        self._readers.append(Reader(process, reports))

    def _stop(self, count: int) -> None:
        leaving = [self._readers.pop() for _ in range(max(0, count))]
        for reader in leaving:
            reader.process.terminate()
        for reader in leaving:
            reader.process.join(STOP_WITHIN)
            reader.process.kill()
            reader.reports.close()

    def _gather(self, seconds: float) -> Seen:
        """Add up what readers report within so many *seconds*."""
        until, total = time.monotonic() + seconds, Seen()
        while (left := until - time.monotonic()) > 0:
            open_ends = {reader.reports: reader for reader in self._readers}
            if not open_ends:
                break
            for end in wait(list(open_ends), left):
                reader = open_ends[cast("Connection", end)]
                try:
                    seen = cast("Seen", reader.reports.recv())
                except (EOFError, OSError):
                    self._lost(reader)
                    continue
                reader.ready, reader.asked = seen.ready, seen.asked
                if seen.error:
                    reader.failed = True
                    self.result.errors.append(seen.error)
                total.elements += seen.elements
                total.nbytes += seen.nbytes
                total.waits.merge(seen.waits)
        return total

    def _lost(self, reader: Reader) -> None:
        """Know that *reader* is gone, which nobody told it to be."""
        self._readers.remove(reader)
        reader.reports.close()
        if not reader.failed:
            reader.process.join(STOP_WITHIN)
            code = reader.process.exitcode
            self.result.errors.append(f"a reader ended with exit code {code}, and did not say why")

    def _note(self, phase: Phase, seen: Seen) -> None:
        waits = self._unended()
        waits.merge(seen.waits)
        moment = Moment(
            time.monotonic() - self._began,
            phase.name,
            len(self._readers),
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

"""Simulated readers: threads of a process, which reports twice a second what they saw.

Another thread reports, so that a wait that has not ended is known too.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from loadtest.histogram import Histogram
from penstock import INFINITE, Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.service import ShardingPolicy

REPORT_EVERY = 0.5
"""Seconds between two reports of a reader."""


@dataclass(frozen=True, slots=True)
class Input:
    """What is read: arrays of *nbytes* that take *work* seconds of CPU each to make."""

    target: str
    mode: str
    job_name: str | None
    nbytes: int
    work: float
    timeout: float


@dataclass(slots=True)
class Seen:
    """What readers saw since their last report; *cpu* is in seconds since their process began.

    They are *ready* when each has its first element: the wait for that is its start, and no load.
    """

    elements: int = 0
    nbytes: int = 0
    cpu: float = 0.0
    waits: Histogram = field(default_factory=Histogram)
    errors: tuple[str, ...] = ()
    ready: bool = False
    asked: tuple[float, ...] = ()
    """Since when those wait that wait for an element, on the monotonic clock of this machine."""

    def add(self, other: Seen) -> None:
        """Add what others saw; not their *cpu*, and not whether they are ready."""
        self.elements += other.elements
        self.nbytes += other.nbytes
        self.waits.merge(other.waits)
        self.errors += other.errors
        self.asked += other.asked


NEXT_AFTER = 10.0
"""Seconds after which the next reader of a process starts, if this one has not had its first
element before: hundreds that start in the same moment are another question than a load."""


def pipeline(what: Input) -> Dataset:
    """Return the pipeline, distributed. It never ends."""
    count, work = max(1, what.nbytes // 4), what.work

    def make(i: int) -> Any:
        until = time.thread_time() + work
        block = np.full(count, i, np.uint32)
        while time.thread_time() < until:
            pass
        return block

    numbers = Dataset.range(1 << 30).repeat(INFINITE)
    mode = ShardingPolicy.__members__.get(what.mode.upper(), what.mode)
    return numbers.map(make).distribute(mode, what.target, what.job_name, timeout=what.timeout)


def read(whats: Sequence[Input], rate: float, reports: Connection) -> None:
    """Read until SIGTERM or an error: the body of a process of as many readers as *whats*."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started all
    signal.signal(signal.SIGTERM, _stop)
    readings = [Reading(what, rate) for what in whats]
    reporting = threading.Thread(target=report_forever, args=(readings, reports), daemon=True)
    try:
        reporting.start()
        for reading in readings:
            reading.start()
            reading.ready.wait(NEXT_AFTER)
        reporting.join()
    except KeyboardInterrupt:
        pass  # told to stop
    finally:
        for reading in readings:
            reading.close()


class Reading:
    """One simulated reader: a thread that reads, and what it saw and nobody has asked for yet."""

    def __init__(self, what: Input, rate: float) -> None:
        self._what, self._rate = what, rate
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._elements: DatasetIterator | None = None
        self._lock = threading.Lock()  # one thread reads, another one reports
        self._seen, self._closed = Seen(), False
        self.ready, self.over = threading.Event(), threading.Event()
        """Set with the first element, and when it reads no more; the latter sets both."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Read no more; return when the job is left."""
        with self._lock:
            self._closed, elements = True, self._elements
        if elements is not None:
            elements.close()
        if self._thread.ident is not None:
            self._thread.join()

    def asks(self, now: float) -> None:
        """Note that it waits from *now* on."""
        with self._lock:
            self._seen.asked = (now,)

    def got(self, nbytes: int, now: float) -> None:
        """Note that the wait has ended, with an element of so many bytes."""
        with self._lock:
            seen = self._seen
            seen.elements += 1
            seen.nbytes += nbytes
            seen.waits.add(now - (seen.asked or (now,))[0])
            seen.asked = ()

    def take(self) -> Seen:
        """Return what was seen since the last call."""
        with self._lock:
            seen, self._seen = self._seen, Seen()
            self._seen.asked = seen.asked
        return seen

    def _run(self) -> None:
        try:
            with pipeline(self._what).iterator() as elements:
                with self._lock:
                    self._elements = elements
                    if self._closed:
                        return
                next(elements)
                self.ready.set()
                self._read(elements)
        except Exception as exc:  # noqa: BLE001  whoever started the load is told
            if not self._closed:
                with self._lock:
                    self._seen.errors = (f"{type(exc).__name__}: {exc}",)
        finally:
            self.over.set()  # before the other: who is woken by that one sees both
            self.ready.set()

    def _read(self, elements: Iterator[Any]) -> None:
        due = time.monotonic()
        while True:
            self.asks(time.monotonic())
            element = next(elements)
            now = time.monotonic()
            self.got(element.nbytes, now)
            if self._rate:
                due = max(due + 1 / self._rate, now - 1)  # who was late does not rush for longer
                time.sleep(max(0.0, due - time.monotonic()))


def report_forever(readings: Sequence[Reading], reports: Connection) -> None:
    """Send what *readings* saw, from when all are ready until all are over.

    When nobody listens, the process ends.
    """
    for reading in readings:
        reading.ready.wait()
    try:
        over = False
        while not over:
            over = all(reading.over.is_set() for reading in readings)
            total = Seen(cpu=sum(os.times()[:2]), ready=True)
            for reading in readings:
                total.add(reading.take())
            reports.send(total)
            if not over:
                time.sleep(REPORT_EVERY)
    except OSError:
        os.kill(os.getpid(), signal.SIGTERM)


def _stop(_signum: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt

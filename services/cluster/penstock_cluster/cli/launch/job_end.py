"""Find out when the job of all hosts is over, from its readers and from its dispatcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum

from penstock.errors import PenstockError, Unavailable
from penstock_cluster.cli.client import errors
from penstock_cluster.cli.status import look
from penstock_dispatcher.core.stats import IterationStats

LOOK_EVERY = 0.5
"""Seconds between two looks at the dispatcher."""

LATE = 5.0
"""Seconds to wait, after the script has ended, for trainers that have not read yet."""

IDLE = 5.0
"""Seconds without progress after which a reader that lives with its host's server is ignored."""

LINGER = 3.0
"""Seconds for which a dispatcher reports that the job is over: other hosts ask several times."""


class JobEnd(Enum):
    """How the job ended, as another host sees it."""

    RUNS = "runs"
    OVER = "over"
    """The dispatcher said that the job is over."""
    LOST = "lost"
    """The dispatcher answered before, and then did not answer for long."""


class JobWatch:
    """Asks a dispatcher whether the job is over; after *seconds* of silence the job is lost."""

    def __init__(
        self, target: str, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._target, self._seconds, self._clock = target, seconds, clock
        self._seen: float | None = None

    def look(self) -> JobEnd:
        """Ask once."""
        try:
            ending = look(self._target).stats.ending
        except Unavailable:
            silent = self._seen is not None and self._clock() > self._seen + self._seconds
            return JobEnd.LOST if silent else JobEnd.RUNS
        except PenstockError:  # it is there: another version, or no access
            ending = False
        self._seen = self._clock()
        return JobEnd.OVER if ending else JobEnd.RUNS

    def wait(self, stop: threading.Event) -> JobEnd:
        """Wait until the job has ended or *stop* is set."""
        state = JobEnd.RUNS
        while state is JobEnd.RUNS and not stop.wait(LOOK_EVERY):
            state = self.look()
        return state


class Progress:
    """Tells whether readers still take elements."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._consumed, self._since = clock, -1, clock()

    def is_idle(self, passes: Iterable[IterationStats]) -> bool:
        """Return whether no reader took an element of *passes* for `IDLE` seconds."""
        consumed = sum(one.account.consumed for one in passes)
        if consumed != self._consumed:
            self._consumed, self._since = consumed, self._clock()
        return self._clock() >= self._since + IDLE


def await_others(
    target: str,
    stop: threading.Event,
    trainers: int,
    say: Callable[[str], None],
    *,
    have_servers: bool,
) -> None:
    """Wait until no other process reads from the dispatcher of this host, or *stop* is set.

    Some of the *trainers* may not have started to read: the call also waits for these a while.
    In TensorFlow's parameter-server training, other hosts *have servers* that keep their readers
    open. In that case the call does not wait for readers that take nothing.
    """
    told, until, progress = False, time.monotonic() + LATE, Progress()
    while not stop.wait(LOOK_EVERY):
        try:
            passes = look(target).stats.iterations
        except PenstockError as exc:  # the exit code is the script's, whatever became of it
            errors.print(f"penstock run: {exc}", markup=False)
            return
        reading = sum(one.live_readers for one in passes if not one.finished)
        came = {str(reader.process) for one in passes for reader in one.readers}
        if not reading and (len(came) >= trainers or time.monotonic() >= until):
            return
        if have_servers and progress.is_idle(passes):
            return
        if reading and not told:
            told = True
            say(f"the script has ended; waiting for {reading} reader(s) of other hosts")

"""Whether the calls of an operator should move to processes: tried once, where threads are no use.

Rule 1. They move when one thread more made nothing faster, and the function computes for at least
        `BUSY` of the time: then it holds the interpreter's lock, or the cores are busy with others.
Rule 2. They go back, permanently, if elements do not come faster by `GAIN` with processes: then the
        cores were busy. The time in which the processes started is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.autotune.threads import GAIN, Period, ThreadChange

BUSY = 0.5
"""The part of one core that the function must use: what waits for files needs threads only."""


class Move(Enum):
    """The decision about the calls."""

    TO_PROCESSES = "to processes"
    TO_THREADS = "to threads"


@dataclass(slots=True)
class ExecutorTuner:
    """Decides after each period. The caller does as it says, at once."""

    on_trial: bool = False
    """Whether the calls have moved, and it is not known yet whether that pays."""
    _over: bool = False
    _usual: float = 0.0
    """The rate without the thread that was tried last."""
    _settled: bool = False

    def untried(
        self, period: Period, change: ThreadChange, busy: float, *, room: bool = True
    ) -> Move | None:
        """Return the decision after *period*, in which calls used *busy* cores on average.

        *change* is the decision about threads; *room* says whether there may be processes.
        """
        if change is not ThreadChange.FEWER:
            self._usual = period.rate
            return None
        if self._over or busy < BUSY or not room:
            return None
        self.on_trial = self._over = True
        return Move.TO_PROCESSES

    def tried(self, period: Period, *, ready: bool) -> Move | None:
        """Return the decision after a *period* on trial; *ready* says that all processes call."""
        if not ready:
            return None
        if not self._settled:  # some of this period they were starting
            self._settled = True
            return None
        self.on_trial = False
        return None if period.rate >= GAIN * self._usual else Move.TO_THREADS

    def cut_short(self) -> None:
        """Record that the calls had to go back before the trial of processes was over."""
        self.on_trial = self._over = self._settled = False

    def fail(self) -> None:
        """Record that there can be no processes; the calls stay in threads."""
        self.on_trial, self._over = False, True

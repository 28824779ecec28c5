"""The numbers that a run may tune, and their limits, from the options of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.autotune.budget import RAM_BUDGET, Budget, ProcessShare
from penstock.autotune.buffers import FIRST
from penstock.autotune.meter import Meter
from penstock.options import AUTOTUNE, Options
from penstock.runtime.cores import cores


@dataclass(frozen=True, slots=True)
class Tuning:
    """The part of the options that counts while a pipeline runs, and the run's budget."""

    options: Options
    budget: Budget

    @classmethod
    def of(
        cls, options: Options, share: int = 1, *, processes: ProcessShare | None = None
    ) -> Tuning:
        """Return the tuning of a run with *options*, which has one in *share* parts of the host.

        The limits in the options hold for each run, however many there are. Calls may move to
        *processes*.
        """
        auto = options.autotune
        # Counted when needed: reading the limits of control groups takes longer than a short run.
        core_budget = auto.cpu_budget or (lambda: max(1, cores() // share))
        budget = Budget(core_budget, auto.ram_budget or RAM_BUDGET // share, processes)
        return cls(options, budget)

    @property
    def enabled(self) -> bool:
        """Whether `AUTOTUNE` measures."""
        return self.options.autotune.enabled is not False

    def threads(self, wanted: int) -> tuple[int, Meter | None]:
        """Return how many threads an operator that *wanted* this many has first, and a tuner."""
        if wanted != AUTOTUNE:
            return min(wanted, self.options.threads or wanted), None
        if self.enabled and self.options.threads != 1:
            return 1, Meter(self.budget, self.options.threads)
        return self.threads(self.budget.cores)

    def processes(self, wanted: int) -> int:
        """Return how many processes an operator has if it *wanted* this many."""
        return self.threads(self.budget.cores if wanted == AUTOTUNE else wanted)[0]

    def buffer(self, wanted: int) -> tuple[int, Budget | None]:
        """Return how long a buffer *wanted* so long is at first, and its limit if it is tuned."""
        if wanted != AUTOTUNE:
            return wanted, None
        return FIRST, self.budget if self.enabled else None

"""A machine in virtual time, whose speed is a function of its threads."""

from __future__ import annotations

from collections.abc import Callable

from penstock.autotune.budget import Budget
from penstock.autotune.meter import Meter


class Machine:
    """Gives ``rate(threads)`` elements a second to a reader who wants at most *wanted* of them."""

    def __init__(self, rate: Callable[[int], float], wanted: float, budget: Budget) -> None:
        self.now = 0.0
        self.rate, self.wanted = rate, wanted
        self.meter = Meter(budget, clock=lambda: self.now)

    def run(self, blocks: int) -> list[int]:
        """Let the reader ask for blocks of ten; return the number of threads behind each."""
        seen = []
        for _ in range(blocks):
            made, used = 10 / self.rate(self.meter.threads), 10 / self.wanted
            self.meter.enter()
            self.now += max(0.0, made - used)
            self.meter.leave(10)
            self.now += used
            seen.append(self.meter.threads)
        return seen

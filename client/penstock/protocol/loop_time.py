"""How much of its time a training loop waits, as readers report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopTime:
    """So many *steps* of a loop took *seconds*, of which it *waited* some.

    Half of the steps waited no longer than *p50* seconds, 99 % no longer than *p99*.
    """

    steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    p50: float = 0.0
    p99: float = 0.0

    @property
    def share(self) -> float:
        """The share of its time that the loop waited, from 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PassRead:
    """A pass of a job that a loop reads, at the dispatcher of this address."""

    address: str
    iteration: int

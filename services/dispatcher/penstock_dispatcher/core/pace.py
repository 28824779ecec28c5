"""How fast the tasks of a job go that is read in order: its next ones are cut by that."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.protocol.types import TaskId

NEWEST = 0.5
"""The weight of the newest task: the cost of elements may change within a pass."""

LEAST_SECONDS = 1e-3
"""A task takes no less: messages do."""


@dataclass(slots=True)
class Pace:
    """How many units a second a task makes, as far as tasks have ended."""

    rate: float = 0.0
    """0 as long as none has ended."""
    last: int = 1
    """The units of the newest task."""
    _begun: dict[TaskId, tuple[int, float]] = field(default_factory=dict)

    def begin(self, task: TaskId, units: int, now: float) -> None:
        """Record that *task* was created with *units* units."""
        self.last = max(1, units)
        self._begun[task] = (units, now)

    def end(self, task: TaskId, now: float) -> None:
        """Record that all of *task* was made; an earlier record counts once."""
        units, at = self._begun.pop(task, (0, now))
        if not units:
            return
        rate = units / max(now - at, LEAST_SECONDS)
        self.rate = NEWEST * rate + (1 - NEWEST) * (self.rate or rate)

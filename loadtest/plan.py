"""What a load is: how many readers at what rate for how long, and what happens to workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Phase:
    """*readers* readers for *seconds*, each at most *rate* elements a second (0: no bound)."""

    name: str
    seconds: float
    readers: int
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Phases one after another, whose readers take turns to read *jobs* jobs (0: each its own).

    Every *churn* seconds (0: never) a worker joins, or one leaves.
    """

    phases: tuple[Phase, ...]
    churn: float = 0.0
    jobs: int = 1

    @property
    def seconds(self) -> float:
        """How long all of it takes."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def most_readers(self) -> int:
        """How many readers there are at the busiest time."""
        return max(phase.readers for phase in self.phases)


class Preset(Enum):
    """Loads with a name."""

    SMOKE = "smoke"
    """Does it work at all? Ten seconds, two readers."""
    SOAK = "soak"
    """Does anything grow? Many readers of many jobs, for ten minutes."""
    SPIKE = "spike"
    """What does a rush do to the waits? A third of the readers, then all, then a third."""
    CHURN = "churn"
    """What do workers that leave and join do to the waits?"""


def plan(
    preset: Preset | None,
    readers: int | None = None,
    seconds: float | None = None,
    rate: float | None = None,
    jobs: int | None = None,
) -> Load:
    """Return the load of *preset*, changed as given; without one, a single phase."""
    load = _of(preset, readers, seconds, rate)
    return load if jobs is None else replace(load, jobs=jobs)


def _of(
    preset: Preset | None, readers: int | None, seconds: float | None, given: float | None
) -> Load:
    rate = given or 0.0
    match preset:
        case None:
            return Load((Phase("steady", seconds or 30.0, readers or 4, rate),))
        case Preset.SMOKE:
            return Load((Phase("smoke", seconds or 10.0, readers or 2, rate),))
        case Preset.SOAK:
            many = Phase("soak", seconds or 600.0, readers or 200, 5.0 if given is None else given)
            return Load((many,), jobs=50)
        case Preset.SPIKE:
            count, whole = readers or 9, seconds or 60.0
            calm = max(1, count // 3)
            return Load(
                (
                    Phase("before", whole / 3, calm, rate),
                    Phase("spike", whole / 3, count, rate),
                    Phase("after", whole / 3, calm, rate),
                )
            )
        case Preset.CHURN:
            whole = seconds or 60.0
            return Load((Phase("churn", whole, readers or 4, rate),), churn=whole / 12)

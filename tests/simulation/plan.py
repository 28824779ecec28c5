"""One schedule: everything that happens in it follows from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulation.ledger import Saved
from simulation.loop import Habits

FAULTS = {
    "calm": (),
    "workers": (
        *("crash w", "crash w", "runner w", "runner w", "crash d", "leave w", "drain w"),
        *("cut off w", "cut off d", "part d w", "part r w", "line w", "pause w", "start w"),
    ),
    "readers": (
        *("crash w", "crash d", "crash r", "runner w", "pause r", "leave r", "line r"),
        *("cut off r", "cut off d", "cut off 2", "part d w", "part d r", "part r w", "pause d"),
    ),
    "saves": ("part d w", "part d r", "part d r", "crash r", "crash d", "pause r", "drain w"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, by whom, and what goes wrong: *faults* are times and kinds."""

    seed: int
    kind: str
    workers: int
    readers: int
    size: int
    passes: int
    dynamic: bool
    nbytes: int
    room: int
    frames: int
    habits: tuple[Habits, ...]
    save_at: float
    save_for: float
    save_without: bool
    """Whether it may go without readers that are missing."""
    faults: tuple[tuple[float, str], ...]
    origin: Saved | None = None
    slots: tuple[int, ...] = ()
    """How many each worker has."""
    never: tuple[tuple[str, str, float], ...] = ()
    """Readers, workers that they never reach, and after how many seconds they notice."""

    @classmethod
    def draw(cls, seed: int, origin: tuple[Plan, Saved] | None = None) -> Plan:
        """Draw a schedule; one that goes on from a saved state has other counts."""
        chance = Random(seed * 2 + (origin is not None))
        count, some = chance.randint, chance.random
        kind = chance.choices(list(FAULTS), (1, 3, 4, 2))[0]
        size, passes, dynamic = count(8, 20), 1 + (some() < 0.15), some() < 0.7
        if origin is not None:
            size, passes, dynamic = origin[0].size, origin[0].passes, origin[0].dynamic
        elif not dynamic:
            size = count(4, 10)
        readers, lockstep = count(1, 3), some() < 0.3
        save_at = (
            chance.uniform(2, 6) if origin is None and (kind == "saves" or some() < 0.5) else 0
        )
        first, last = (save_at - 2, save_at + 4) if kind == "saves" and save_at else (0.5, 14)
        kinds = FAULTS[kind]
        drawn = (
            [(chance.uniform(first, last), chance.choice(kinds)) for _ in range(count(0, 5))]
            if kinds
            else []
        )
        workers = count(1, 3)
        return cls(
            seed,
            kind,
            workers,
            readers,
            size,
            passes,
            dynamic,
            chance.choice((100, 40_000, 400_000)),
            count(6, 30),
            chance.choice((0, 0, 1, 2, 3)),
            tuple(_habits(chance, lockstep=lockstep) for _ in range(readers)),
            save_at,
            chance.uniform(4, 15),
            Random(-seed - 1).random() < 0.5,  # apart, so that all else is as it was without
            bearable(sorted(drawn)),
            origin[1] if origin is not None else None,
            _slots(Random(seed * 2 + (origin is not None) + 0.5), workers),
            _never(Random(~seed), workers, readers),
        )


def _slots(chance: Random, workers: int) -> tuple[int, ...]:
    """Draw how many slots each worker has: in some schedules one."""
    several = chance.random() < 0.6
    return tuple(chance.randint(1, 4) if several else 1 for _ in range(workers))


def _never(chance: Random, workers: int, readers: int) -> tuple[tuple[str, str, float], ...]:
    """Draw links that never come up, in some schedules; one worker is in the reach of all."""
    if workers < 2 or chance.random() < 0.8:
        return ()
    whole = chance.random() < 0.4  # it has a wrong address; else some links are missing
    links = [(f"r{r}", f"w{w}") for r in range(readers) for w in range(1, workers)]
    down = [link for link in links if (link[1] == "w1" if whole else chance.random() < 0.4)]
    return tuple((*link, chance.choice((0.01, 1.0, 5.0))) for link in down)


def bearable(faults: list[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """Leave out what readers are rightly told of: the third death of runners without progress.

    And that there is no room for a runner, for long.
    """
    deaths = [fault for fault in faults if fault[1] == "runner w"]
    starts = [fault for fault in faults if fault[1] == "start w"]
    return tuple(fault for fault in faults if fault not in [*deaths[2:], *starts[2:]])


def _habits(chance: Random, *, lockstep: bool) -> Habits:
    has_operators = chance.random() < 0.4
    return Habits(
        chance.uniform(0.1, 0.5),
        lockstep,
        chance.randint(0, 4) if has_operators else 0,
        chance.randint(1, 3) if has_operators else 0,
        chance.randint(0, 2) if has_operators else 0,
        chance.random() < 0.3,
    )

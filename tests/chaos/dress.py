"""What any plan may have on top: how processes talk, slots, and many more faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from chaos import plan as plain
from chaos.draws import draw_fault
from chaos.plan import Kind, Life, Plan

LIMITED = (
    *(Kind.SAVE, Kind.KILL_RUNNER, Kind.ADD_READER, Kind.ADD_WORKER, Kind.CALL_DRAIN),
    Kind.SET_WEIGHTS,
)
"""What does not come more often in a dense plan."""

SHORT = 1.6
"""Seconds that most of the faults last which a dense plan has more."""

PATIENCE = 0.4
"""See `Plan.patience`, of a dense plan."""


@dataclass(frozen=True, slots=True)
class Dress:
    """What is asked for; None is drawn from the seed of the plan."""

    transport: str | None = None
    secured: bool | None = None
    slots: int | None = None
    density: int = 1
    """How many times as many faults there are."""

    def on(self, drawn: Plan, kind: str) -> Plan:
        """Return a plan of *kind* as it is to be played."""
        chance = random.Random(f"dress {drawn.seed}")
        transport = chance.choice(("grpc", "grpc", "shm"))
        secured = chance.random() < 0.4
        slots = chance.choice((None, 1, 2, 4))
        plan = replace(
            drawn,
            transport=self.transport or transport,
            secured=secured if self.secured is None else self.secured,
            slots=self.slots or slots,
        )
        if self.density == 1:
            return plan
        if kind == "saved" and plan.sharing is None:  # it was saved before, and is read
            kind = "plain"
        lives = tuple(self._denser(life, kind, chance) for life in plan.lives)
        return replace(plan, lives=lives, patience=PATIENCE, deadline=plan.deadline + 60)

    def _denser(self, life: Life, kind: str, chance: random.Random) -> Life:
        faults, wanted = list(life.faults), self.density * len(life.faults)
        while len(faults) < wanted:
            fault = draw_fault(kind, chance, life.workers, life.readers)
            if fault.kind in LIMITED:
                continue
            if fault.lasts is not None and fault.lasts > plain.LEASE and chance.random() < 0.8:
                fault = replace(fault, lasts=chance.uniform(0.1, SHORT))
            faults.append(fault)
        return replace(life, faults=tuple(sorted(faults, key=lambda fault: fault.at)))

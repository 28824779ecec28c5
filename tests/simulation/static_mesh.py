"""A mesh whose workers are listed, each with a part of the job: tormented as others are.

Each part is a source of its own, of which every element must come once. Workers always come back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.protocol.types import Mode
from penstock_dispatcher.core.facts import AttemptStarted, Fact
from simulation.dispatcher import SETTINGS
from simulation.ledger import Ledger
from simulation.mesh import Mesh, run_and_restore
from simulation.plan import Plan
from simulation.world import LawBroken

MOST = 10
"""The most elements of a part."""


class StaticMesh(Mesh):
    """One schedule; in every other one parts of workers that stay away go on elsewhere."""

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        super().__init__(plan, trace=trace)
        listed = tuple(f"w{i}" for i in range(plan.workers))
        moves = bool(plan.seed % 2)
        self.settings = replace(SETTINGS, worker_addresses=listed, reassign_static_tasks=moves)
        if not moves:
            self.ledger = self.witness = _Places(self, plan.origin)

    @property
    def mode(self) -> Mode:
        """See `Mesh.mode`."""
        return Mode.DATA


class _Places(Ledger):
    """Holds against the laws, too, where parts run."""

    def decided(self, fact: Fact) -> None:
        """See `Witness.decided`."""
        super().decided(fact)
        if isinstance(fact, AttemptStarted):
            iteration = self.world.iteration(self.current)
            task = None if iteration is None else iteration.tasks.get(fact.task)
            if task is not None and fact.worker != f"w{task.index}":
                raise LawBroken(f"part {task.index} runs on {fact.worker}, which has another one")


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with as many workers."""
    plan = Plan.draw(seed)
    plan = replace(plan, dynamic=False, size=min(plan.size, MOST), never=())

    def restored(mesh: StaticMesh) -> StaticMesh:
        again = Plan.draw(seed, (plan, mesh.ledger.saved))
        return StaticMesh(replace(again, workers=plan.workers, never=()), trace=trace)

    return run_and_restore(StaticMesh(plan, trace=trace), restored)

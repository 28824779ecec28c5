"""A whole mesh in a hostile world: it is started, tormented, and held against the laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import Codec, DatasetId, Mode
from simulation.ledger import Ledger
from simulation.pipeline import Element
from simulation.plan import FAULTS, Plan
from simulation.reader import SimReader, Spec
from simulation.runner import Work
from simulation.torment import Torment
from simulation.worker import VERSIONS
from simulation.world import LawBroken, Process
from tests.openings import opening

PATIENCE = 200.0
"""A pass that takes longer has hung."""

DATASET = DatasetId("fingerprint")


class Mesh(Torment):
    """One schedule, from first start to the end of the pass."""

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        super().__init__(plan.seed * 2 + bool(plan.origin), trace=trace)
        self.plan = plan
        self.rough = plan.kind != "calm"
        self.never = {(reader, worker): wait for reader, worker, wait in plan.never}
        self.stats["links that never come up"] = len(self.never)
        self.ledger = self.witness = Ledger(self, plan.origin)
        self.streams = (SplitProviderSpec(("",), plan.size, None, plan.passes),)
        self.work = Work(plan.size, plan.passes, plan.nbytes, plan.room)
        workers = [f"w{i}" for i in range(plan.workers)]
        readers = [f"r{i}" for i in range(plan.readers)]
        self.names = ["d", *workers, *readers]
        self.slots = dict(zip(workers, plan.slots, strict=False))
        self.stats["workers with slots"] = sum(count > 1 for count in plan.slots)
        self.rates = {name: self.chance.uniform(0.97, 1.03) for name in self.names}
        self.over: set[str] = set()
        """The readers that came to the end of the pass."""

    @property
    def mode(self) -> Mode:
        """How the pass is divided over its tasks."""
        return Mode.DYNAMIC if self.plan.dynamic else Mode.OFF

    def run(self) -> Mesh:
        """Run the schedule.

        Raises:
            LawBroken: when it is not what it should be.
        """
        plan = self.plan
        for name in self.names:
            self.at(self.chance.uniform(0, 1), self.start, name)
        self.expect(plan.faults, FAULTS[plan.kind])
        if plan.save_at:
            self.at(plan.save_at, self.save)
        while len(self.over) < plan.readers and self.goes_on(PATIENCE):
            pass
        if len(self.over) < plan.readers:
            raise LawBroken("law 10: the pass does not end")
        self.hear_last_words(lambda: self.ledger.current)
        self.ledger.check_end(self._everything(), self.account(self.ledger.current))
        self.check_processes()
        return self

    # --- processes ---

    def start(self, name: str) -> None:
        """Start a process, unless it lives, or has done its work."""
        if name not in self.over:
            super().start(name)

    def launch(self, name: str) -> SimReader:
        """See `Torment.launch`."""
        plan, index = self.plan, int(name[1:])
        session = f"{name}.{self.lives[name]}"
        restore = plan.origin.state if plan.origin is not None else b""
        spec = Spec(self.request(restore), plan.habits[index], plan.frames)
        return SimReader(self, name, session, spec, self.ledger, self.behind)

    def request(self, restore: bytes) -> OpenIterationRequest:
        """Return what readers ask for."""
        return opening(VERSIONS, DATASET, self.mode, "job", 0, Codec.NONE, restore=restore)

    def gone(self, process: Process) -> None:
        """Start again what has ended, some time later; a reader only if the pass goes on."""
        if isinstance(process, SimReader) and process.finished:
            self.over.add(process.name)
        else:
            self.at(self.chance.uniform(0.3, 9), self.start, process.name)

    def readers(self) -> list[SimReader]:
        """Return the readers that read."""
        return [p for p in self.processes.values() if isinstance(p, SimReader) and p.reads]

    def behind(self) -> int:
        """Return how far the slowest of the loops is."""
        return min((r.loop.count for r in self.readers() if not r.loop.over), default=0)

    # --- what happens to them ---

    def save(self) -> None:
        """Have every loop that reads now save at its next step."""
        for reader in self.readers():
            if reader.core.reader is not None:
                reader.loop.wants_save = ("", self.plan.save_for, self.plan.save_without)

    def befall(self, what: str, process: Process, seconds: float) -> None:
        """See `Torment.befall`; a reader may leave before the end, too."""
        super().befall(what, process, seconds)
        if what == "leave" and isinstance(process, SimReader) and process.reads:
            process.loop.wants_to_leave = True

    # --- the end ---

    def _everything(self) -> set[Element]:
        plan = self.plan
        each = {0} if plan.dynamic else self.ledger.copies
        return {
            Element(copy, turn, unit)
            for copy in each
            for turn in range(plan.passes)
            for unit in range(plan.size)
        }


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with other counts."""

    def restored(mesh: Mesh) -> Mesh:
        return Mesh(Plan.draw(seed, (mesh.plan, mesh.ledger.saved)), trace=trace)

    return run_and_restore(Mesh(Plan.draw(seed), trace=trace), restored)


def run_and_restore(mesh: Any, restored: Callable[[Any], Any]) -> Counter[str]:
    """Run a mesh, and the one that goes on from what it saved; return what happened in both.

    Raises:
        LawBroken: when it is not what it should be.
    """
    mesh.note("all", mesh.plan)
    mesh.run()
    stats: Counter[str] = mesh.stats + Counter({mesh.plan.kind: 1, "events": mesh.events})
    if mesh.ledger.saved is not None:
        later = restored(mesh)
        later.note("all", f"restored: {later.plan}")
        later.run()
        stats += later.stats + Counter({"restores": 1, "events": later.events})
    return stats

"""A mesh whose job is cached for several trainers: it is tormented, and held against the laws."""

from __future__ import annotations

from collections import Counter

from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import Codec, DatasetId, Mode, TaskId
from simulation.cache_ledger import CacheLedger, TrainerTaken
from simulation.cache_plan import KINDS, CachePlan
from simulation.cache_watch import CacheWatch
from simulation.reader import SimReader, Spec
from simulation.runner import Work
from simulation.torment import AFTERMATH, Torment
from simulation.worker import VERSIONS, SimWorker
from simulation.world import LawBroken, Process
from tests.openings import opening

PATIENCE = 300.0
"""Passes that take longer have hung."""

EVENTS = 100_000
"""What happens in a schedule, at most: if it is more, something goes round and round."""

SWEPT = 120.0
"""Seconds after which a pass that nobody reads is over."""


class CacheMesh(Torment):
    """One schedule, from first start to the end of the passes."""

    def __init__(self, plan: CachePlan, *, trace: bool = False) -> None:
        super().__init__(plan.seed, trace=trace)
        self.plan = plan
        self.rough = plan.kind != "calm"
        self.ledger = self.witness = CacheLedger(self, plan, self._placed)
        self.watch = CacheWatch(self.ledger, waits=plan.when_full == "wait")
        self.streams = (SplitProviderSpec(("",), plan.size, None, plan.passes),)
        self.work = Work(plan.size, plan.passes, plan.nbytes, plan.room, plan.cache, plan.weights)
        workers = [f"w{i}" for i in range(plan.workers)]
        readers = [f"r{i}" for i in range(len(plan.readers))]
        self.names = ["d", *workers, *readers]
        self.rates = {name: self.chance.uniform(0.97, 1.03) for name in self.names}
        self.passes: Counter[str] = Counter()
        """How many passes each reader has read to their end."""
        self.trainers = {f"r{i}": one.trainer for i, one in enumerate(plan.readers)}
        self.ends: dict[int, set[str]] = {}
        """The trainers that came to the end of each repetition."""
        self._gone: set[str] = set()
        self._behind: dict[str, str] = {}

    def run(self) -> CacheMesh:
        """Run the schedule.

        Raises:
            LawBroken: when it is not what it should be.
        """
        plan = self.plan
        late = {f"r{i}": one.late for i, one in enumerate(plan.readers)}
        for name in self.names:
            self.at(late.get(name, 0.0) + self.chance.uniform(0, 1), self.start, name)
        for index, one in enumerate(plan.readers):
            if one.quits is not None:
                self.at(late[f"r{index}"] + one.quits, self._quit, f"r{index}", one.crashes)
        self.expect(plan.faults, KINDS[plan.kind])
        while not self._all_over() and self.goes_on(PATIENCE):
            if self.events > EVENTS:
                raise LawBroken("law 8: it goes round and round")
        if not self._all_over():
            raise LawBroken("law 8: the pass does not end")
        until = self.now + (SWEPT if plan.to_the_end else AFTERMATH)
        while not self._is_settled() and self.goes_on(until):
            pass
        self._hear_workers()
        if plan.to_the_end and not self._is_settled():
            raise LawBroken("law 8: nobody reads any more, and the pass does not finish")
        for repetition, iteration in self.ledger.passes.items():
            who = self.ends.get(repetition, set()) - self.ledger.too_late(iteration)
            self.ledger.check_end(iteration, self.account(iteration), who)
        self.check_processes()
        return self

    # --- processes ---

    def start(self, name: str) -> None:
        """Start a process, unless it lives, or has done its work."""
        if name not in self._gone and not self._is_over(name):
            super().start(name)

    def launch(self, name: str) -> SimReader:
        """See `Torment.launch`."""
        plan, index, trainer = self.plan, int(name[1:]), self.trainers[name]
        session = f"{name}.{self.lives[name]}"
        self.ledger.trainers[session] = trainer
        request = opening(
            VERSIONS,
            DatasetId("fingerprint"),
            Mode.DYNAMIC if plan.dynamic else Mode.OFF,
            "job",
            self.passes[name],
            Codec.NONE,
            trainer=trainer,
            when_full=plan.when_full,
        )
        spec = Spec(request, plan.readers[index].habits, plan.frames)
        taken = TrainerTaken(self.ledger, trainer)
        return SimReader(self, name, session, spec, taken, lambda: self._slowest(trainer))

    def gone(self, process: Process) -> None:
        """Start again what has ended, some time later; a reader only if there is more to read."""
        name = process.name
        if isinstance(process, SimReader) and process.finished:
            self.ends.setdefault(self.passes[name], set()).add(self.trainers[name])
            self.passes[name] += 1
        self.at(self.chance.uniform(0.3, 9), self.start, name)

    def decided(self, process: Process) -> None:
        """See `World.decided`."""
        if isinstance(process, SimWorker):
            self.watch.look(process)

    def _slowest(self, trainer: str) -> int:
        """Return how far the slowest of a trainer's loops is."""
        mine = [one for one in self._readers(trainer) if one.reads and not one.loop.over]
        return min((one.loop.count for one in mine), default=0)

    def _readers(self, trainer: str) -> list[SimReader]:
        alive = [p for p in self.processes.values() if isinstance(p, SimReader)]
        return [one for one in alive if self.trainers[one.name] == trainer]

    def _is_over(self, name: str) -> bool:
        return name[0] == "r" and self.passes[name] >= self.plan.repetitions

    def _all_over(self) -> bool:
        readers = (name for name in self.names if name[0] == "r")
        return all(name in self._gone or self._is_over(name) for name in readers)

    # --- what happens to them ---

    def fault(self, kind: str) -> None:
        """See `Torment.fault`; all readers of a trainer may be hit at once."""
        what, _, whom = kind.rpartition(" ")
        if whom != "t":
            super().fault(kind)
            return
        trainer, seconds = self.chance.choice(sorted({*self.trainers.values()})), 14.0
        self.note(trainer, f"fault: {kind}")
        self.stats[f"fault: {kind}"] += 1
        for reader in self._readers(trainer):
            self.befall(what, reader, self.chance.uniform(1, seconds))

    def befall(self, what: str, process: Process, seconds: float) -> None:
        """See `Torment.befall`; readers may leave, too, and come back for another trainer."""
        super().befall(what, process, seconds)
        if not isinstance(process, SimReader):
            return
        if what == "leave" and process.reads:
            process.loop.wants_to_leave = True
        elif what == "rename":
            process.end("it has another name now")
            self.trainers[process.name] = self.chance.choice(("d", self.trainers[process.name]))

    def _quit(self, name: str, crashes: bool) -> None:  # noqa: FBT001
        """Have a reader go, and not come back."""
        self._gone.add(name)
        process = self.processes.get(name)
        if isinstance(process, SimReader):
            self.befall("leave" if process.reads and not crashes else "crash", process, 0.0)

    # --- what is known of it ---

    def _placed(self, task: TaskId) -> set[str]:
        if self.dispatcher is None:
            return set()
        ctx = self.dispatcher.core.ctx
        known = ctx.state.task(task)
        return set() if known is None else set(ctx.trainers(task, known))

    def _hear_workers(self) -> None:
        """Wait until workers have told what there is."""
        until = self.now + AFTERMATH

        def heard() -> bool:
            if self.dispatcher is None:
                return False
            since = (until - AFTERMATH + 1) * self.rates["d"]
            known = self.dispatcher.core.ctx.soft_state.workers
            return all(one.last_heard > since for one in known.values())

        while not heard() and self.goes_on(until):
            pass

    def _is_settled(self) -> bool:
        """Return whether all that readers had to say is known; or, at the end, all is over."""
        if "d" not in self.processes:
            return False
        known = [self.iteration(name) for name in self.ledger.passes.values()]
        if self.plan.to_the_end:
            return bool(known) and all(one is None or one.finished for one in known)
        return all(one is not None and all(r.final for r in one.readers.values()) for one in known)


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule.

    Raises:
        LawBroken: when it is not what it should be.
    """
    mesh = CacheMesh(CachePlan.draw(seed), trace=trace)
    mesh.note("all", mesh.plan)
    mesh.run()
    return mesh.stats + Counter({mesh.plan.kind: 1, mesh.plan.when_full: 1, "events": mesh.events})

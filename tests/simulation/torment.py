"""Processes that are started, tormented and started again; what a schedule of any kind needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import IterationId
from penstock_dispatcher.core import account
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.events import Call, DrainWorker
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.settings import CoreSettings
from simulation import storm as storms
from simulation.disk import Disk
from simulation.dispatcher import SETTINGS, SimDispatcher, Witness
from simulation.lines import dial
from simulation.runner import Work
from simulation.worker import SimWorker
from simulation.world import LawBroken, Process, World

AFTERMATH = 12.0
"""Seconds in which the last words of readers are heard, when all have come to the end."""


class Torment(World):
    """A dispatcher, workers and training processes, by *names*, and what befalls them."""

    names: list[str]
    witness: Witness
    streams: tuple[SplitProviderSpec, ...]
    work: Work
    slots: Mapping[str, int] = MappingProxyType({})
    """How many each worker has that has more than one."""
    settings: CoreSettings = SETTINGS
    """Those of the dispatcher."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        super().__init__(seed, trace=trace)
        self.seed = seed
        self.disk = Disk()
        self.lives: Counter[str] = Counter()

    @property
    def dispatcher(self) -> SimDispatcher | None:
        """The dispatcher, if it is there."""
        found = self.processes.get("d")
        return found if isinstance(found, SimDispatcher) else None

    def launch(self, name: str) -> Process:
        """Return a new training process."""
        raise NotImplementedError

    def start(self, name: str) -> None:
        """Start a process, unless it lives."""
        if name in self.processes:
            return
        self.lives[name] += 1
        self.note(name, f"starts, life {self.lives[name]}")
        if name == "d":
            known = (self.disk, self.witness, self.streams, self.settings)
            self.processes[name] = SimDispatcher(self, *known)
        elif name[0] == "w":
            self.processes[name] = SimWorker(
                self, name, self.lives[name], self.work, self.slots.get(name, 1)
            )
        else:
            self.processes[name] = self.launch(name)

    def goes_on(self, until: float) -> bool:
        """Let the next thing happen, unless it is later than *until*, or nothing is left."""
        return self.now < until and self.step()

    # --- what happens to them ---

    def expect(self, faults: Iterable[tuple[float, str]], kinds: Sequence[str]) -> None:
        """Have *faults* come, and with them those of *kinds* that a storm brings."""
        storm = storms.current()
        if storm.faults and kinds:
            self.breaks = storms.BREAKS
        for when, kind in [*faults, *storm.draw(self.seed, kinds)]:
            self.at(when, self.fault, kind)

    def fault(self, kind: str) -> None:
        """Let something go wrong."""
        what, _, whom = kind.rpartition(" ")
        names = [n for n in self.names if whom not in ("d", "w", "r") or n[0] == whom]
        name = self.chance.choice(names)
        seconds = self.chance.uniform(1, 14)
        self.note(name, f"fault: {kind}")
        hits = what == "cut off" or what.startswith("part") or name in self.processes
        self.stats[f"fault: {kind}" if hits else "faults that hit nobody"] += 1
        if what == "cut off":
            apart = set(
                self.chance.sample(self.names if whom == "2" else names, 2 if whom == "2" else 1)
            )
            self.cut_off(apart, set(self.names) - apart, seconds)
        elif what.startswith("part"):
            ones, others = ([n for n in self.names if n[0] == w] for w in kind.split()[1:])
            self.cut_off({self.chance.choice(ones)}, {self.chance.choice(others)}, seconds)
        elif (process := self.processes.get(name)) is not None:
            self.befall(what, process, seconds)

    def befall(self, what: str, process: Process, seconds: float) -> None:
        """Let something happen to *process*."""
        if what == "crash":
            if self.chance.random() < 0.5:
                process.doomed = True
            else:
                process.end("crash")
        elif what == "pause":
            process.pause(seconds)
        elif what == "line":
            for end in list(process.ends):
                end.fail()
        elif what == "runner" and isinstance(process, SimWorker):
            process.kill_runner()
        elif what == "start" and isinstance(process, SimWorker):
            process.lack_room()
        elif what == "leave" and isinstance(process, SimWorker):
            process.run(process.leave)
            self.at(8, process.end, "its time to leave is over")
        elif what == "drain":
            self._drain(process.name)
            self.at(12, process.end, "it was to leave")

    def _drain(self, worker: str) -> None:
        """Have somebody ask the dispatcher that *worker* leaves."""
        caller = Process(self, worker)
        line = dial(caller, "d")
        line.send(DrainWorker(Call(0), worker))  # type: ignore[arg-type]

    # --- the end ---

    def iteration(self, name: IterationId) -> IterationRecord | None:
        """Return what is decided of an iteration, if the dispatcher is there."""
        return self.dispatcher and self.dispatcher.core.state.iterations.get(name)

    def account(self, name: IterationId) -> Account | None:
        """Return the account of the pass, if the dispatcher is there."""
        if self.dispatcher is None or (iteration := self.iteration(name)) is None:
            return None
        return account.of(iteration, self.dispatcher.core.ctx.soft_state)

    def hear_last_words(self, iteration: Callable[[], IterationId]) -> None:
        """Let the dispatcher hear what readers of a pass have still to say, for a while."""
        until = self.now + AFTERMATH

        def all_told() -> bool:
            known = self.iteration(iteration())
            return known is not None and all(r.final for r in known.readers.values())

        while self.now < until and not all_told() and self.goes_on(until):
            pass

    def check_processes(self) -> None:
        """Hold what workers keep and what is on disk against the laws."""
        for process in self.processes.values():
            if isinstance(process, SimWorker):
                process.check_memory()
            if (
                isinstance(process, SimDispatcher)
                and process.journal._written == process.journal._appended
            ):
                found: Any = self.disk.load().state
                if found != process.core.state:
                    raise LawBroken("law 8: replay does not give the books")

"""Play a plan, and count."""

from __future__ import annotations

import heapq
import itertools
import json
import os
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_never

from chaos import cached, counting, limits, ordered, rounds, saves, weights
from chaos.acts import Act, Undo
from chaos.consumers import ConsumersAct
from chaos.mesh import NOWHERE, Mesh
from chaos.ordered import StridedAct
from chaos.plan import LEASE, OFF, Cached, Fault, Kind, Life, Ordered, Plan, Rounds, Saved
from chaos.processes import left_over
from chaos.proxy import Links
from chaos.trainers import TrainersAct
from penstock.credentials import authority
from penstock.dataset.dataset import Dataset
from penstock.errors import PenstockError
from penstock_dispatcher.core.account import Account

TURN = 0.01
LOOK_EVERY = 0.5
END_WITHIN = 5.0
"""Seconds that processes get to be gone, on a machine that has a core for each that computes."""

SETTLES_WITHIN = 30.0
"""Seconds in which a change of weights is answered by a dispatcher that runs."""

LINES = 20
"""How many lines a file has."""

_RUNS = itertools.count()


@dataclass
class Outcome:
    """What became of a run."""

    problems: list[str] = field(default_factory=list)
    faults: Counter[Kind] = field(default_factory=Counter)
    logged: int = 0
    redelivered: int = 0
    missed: int = 0
    """How many elements went by a consumer that was away."""
    told: Counter[str] = field(default_factory=Counter)
    """What consumers were told, how often."""
    stall: float = 0.0
    """The longest time in which no loop got anything."""
    seconds: float = 0.0
    most_files: int = 0
    """The most files that a service had open when all had been read."""
    most_memory: int = 0
    """The most bytes of memory of its own that one had then."""
    accounts: list[Account] = field(default_factory=list)
    changes: int = 0
    """How often the weights of a mixture changed in the pass."""


def run(plan: Plan, folder: Path) -> Outcome:
    """Play *plan* with its files in *folder*, which is removed when nothing was wrong."""
    began = time.monotonic()
    outcome = Outcome()
    token = f"{os.getpid()}-{plan.seed}-{next(_RUNS)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.txt").write_text(f"seed {plan.seed}\n{plan}\n")
    try:
        with (
            Links() as links,
            _disk(plan, folder / "disk") as disk,
            saves.place_of(plan, folder / "saved") as place,
        ):
            _Run(plan, folder, links, token, outcome, disk, place).play()
    except Exception:
        outcome.problems.append(traceback.format_exc())
    outcome.problems += [f"left over: {it}" for it in left_over(token, _end_within())]
    outcome.seconds = time.monotonic() - began
    if outcome.problems:
        (folder / "problems.txt").write_text("\n".join(outcome.problems) + "\n")
    else:
        shutil.rmtree(folder)
    return outcome


class Stuck(Exception):
    """The deadline passed."""


@dataclass
class _Run:
    plan: Plan
    folder: Path
    links: Links
    token: str
    outcome: Outcome
    disk: Path | None = None
    """The small disk of its own that it has, if so."""
    place: saves.Place | None = None
    """Where a dataset is saved."""
    ids: Counter[int] = field(default_factory=Counter)
    killed: int = 0
    copies: int = 0
    act: Act | None = None
    """What was done in the newest life."""
    state: Path | None = None
    """What the next life goes on from."""

    def play(self) -> None:
        """Play all lives, and check."""
        self._deadline = time.monotonic() + self.plan.deadline
        work, files = 0, self._write_files()
        keys = self._make_keys() if self.plan.secured else None
        for number, life in enumerate(self.plan.lives):
            work = number if life.fresh else work
            mesh = Mesh(
                self.links,
                self.folder / f"life {number}",
                self.plan,
                self.token,
                self.folder / "disk" / f"work {work}",
                files,
                keys,
                self.disk,
                self.place.path if self.place else str(self.folder / "loaded"),
                self.place.env if self.place else {},
            )
            try:
                if self._live(mesh, life):
                    self._finish(mesh)
                    return
            except Stuck as exc:
                self.outcome.problems.append(str(exc))
                mesh.dump_stacks()
                return
            finally:
                mesh.close()

    def _live(self, mesh: Mesh, life: Life) -> bool:
        """Play one life; return whether the pass is over, and not to be gone on with elsewhere."""
        mesh.first = counting.newest_in(mesh.status()) + 1
        left = self._wanted(life) - self.ids.total()
        story = _Story(mesh, life, max(left, 1), self._deadline, self.outcome, self.place)
        # No trainer comes late; and who comes when the others are gone begins at a state again.
        all_first = self.state is not None or isinstance(self.plan.sharing, Cached)
        if all_first:
            story.act.begin(life, self.state)
            story.await_readers()
        for worker in mesh.add_workers(life.workers):
            worker.process.wait_ready()
        if not all_first:
            story.act.begin(life, self.state)
        story.can_end = self.state is not None or self.place is not None
        if self.state is not None and self.plan.pipeline == weights.PIPELINE:
            story.act.changes.record = weights.record_in(json.loads(self.state.read_text()))
        copies = self.copies
        try:
            over = story.play()
        finally:
            self.copies = max(self.copies, story.copies)
            if mesh.greedy.exists():  # all was made: nobody took the last order
                self.outcome.faults[Kind.GREEDY] -= 1
        self.outcome.logged += counting.everything(mesh.readers).total()
        saved = story.act.newest_save
        self.act = story.act
        if over:
            self.ids += counting.everything(mesh.readers)
            self.killed += story.act.killed_readers
        elif saved is not None:
            number, self.state = saved
            self.ids += counting.before(mesh.readers, number)
            self.killed += story.act.killed_readers
            self.copies = _next_task(self.state) or self.copies
        else:  # as if this life had not been
            self.copies = copies
        return over

    def _finish(self, mesh: Mesh) -> None:
        if self.plan.pipeline == weights.PIPELINE:
            self._put_in_order(mesh)
        logged = counting.Logged(self.ids, self.killed, self.copies)
        problems, self.outcome.accounts = self._settled(mesh, logged)
        self.outcome.redelivered = self._redelivered(mesh, logged)
        self.outcome.most_files = max(process.open_files for process in mesh.services)
        self.outcome.most_memory = max(process.memory for process in mesh.services)
        self.outcome.problems += problems + mesh.held(_end_within()) + mesh.end(_end_within())
        self.outcome.problems += [f"left over: {file}" for file in mesh.unfinished()]

    def _put_in_order(self, mesh: Mesh) -> None:
        """Let ids be their places in the sequence on record: then all is as of a range."""
        assert self.act is not None
        changes = self.act.changes
        changes.settle(SETTLES_WITHIN)
        places = weights.places(self.plan.elements, changes.record)
        self.outcome.problems += changes.problems
        if strange := sorted(self.ids.keys() - places.keys()):
            told = f"{strange[:12]}, by {sorted(changes.record.items())}"
            self.outcome.problems.append(f"ids that were nobody's turn: {told}")
        self.outcome.changes = len(changes.record)
        self.ids = Counter({places.get(i, NOWHERE): many for i, many in self.ids.items()})
        for reader in mesh.readers:
            reader.renumber(places)
        self.plan = replace(self.plan, pipeline="range")

    def _make_keys(self) -> Path:
        """Make credentials; they are a day old, so that clocks may be set back by an hour."""
        folder = self.folder / "keys"
        authority.init(folder, (), datetime.now(UTC) - timedelta(days=1))
        return folder

    def _write_files(self) -> Path:
        folder = self.folder / "files"
        folder.mkdir()
        if "load" in self.plan.pipeline:
            Dataset.range(self.plan.elements).save(self.folder / "loaded", chunk_bytes=400)
        if "lines" not in self.plan.pipeline:
            return folder
        for start in range(0, self.plan.elements, LINES):
            ids = range(start, min(start + LINES, self.plan.elements))
            (folder / f"part-{start:06}").write_text("".join(f"{i}\n" for i in ids))
        return folder

    def _wanted(self, life: Life) -> int:
        copies = life.workers if self.plan.mode == OFF else 1
        share = 1.0
        if isinstance(self.plan.sharing, Cached):
            share = len(self.plan.sharing.trainers)
        elif isinstance(self.plan.sharing, Rounds):  # each step's round is written down, too
            share = 1 + 1 / counting.step(self.plan)
        return int(self.plan.elements * self.plan.passes * max(copies, self.copies) * share)

    def _settled(self, mesh: Mesh, logged: counting.Logged) -> tuple[list[str], list[Account]]:
        """Check, when the last beats are in."""
        until = time.monotonic() + LEASE + 2.0
        while True:
            stats = mesh.status()
            accounts = counting.accounts_of(self.plan, stats, mesh.first)
            problems = self._check(mesh, stats, logged, accounts)
            if not problems or time.monotonic() > until:
                if problems:
                    (mesh.folder / "status.json").write_text(json.dumps(stats, indent=1))
                return problems, accounts
            time.sleep(0.2)

    def _redelivered(self, mesh: Mesh, logged: counting.Logged) -> int:
        if isinstance(self.act, saves.SavesAct):
            self.outcome.told += saves.told(mesh.readers)
            return 0
        if isinstance(self.act, TrainersAct):
            copies = self._copies(logged)
            return cached.repeated(self.plan, copies, self.act)
        if isinstance(self.act, ConsumersAct):
            self.outcome.told = rounds.told(mesh.readers)
            self.outcome.missed = rounds.missed(mesh.readers)
            return rounds.repeated(mesh.readers)
        return counting.redelivered(self.plan, logged, self.outcome.accounts)

    def _copies(self, logged: counting.Logged) -> int:
        made = sum(it.elements for it in self.outcome.accounts) // self.plan.elements
        return max(1, made, logged.copies if self.plan.mode == OFF else 1)

    def _check(
        self, mesh: Mesh, stats: Any, logged: counting.Logged, accounts: list[Account]
    ) -> list[str]:
        if self.place is not None:
            return list(saves.check(self.plan, self.place, mesh))
        if isinstance(self.act, TrainersAct):
            return cached.check(self.plan, logged.copies, self.act, stats, accounts)
        if isinstance(self.act, ConsumersAct):
            return rounds.check(self.plan, logged.copies, mesh.readers, accounts)
        problems = counting.check(self.plan, logged, accounts)
        if isinstance(self.plan.sharing, Ordered):
            problems += ordered.check(self.plan, mesh.readers, stats, mesh.first)
        return problems


class _Story:
    """What happens in one life."""

    def __init__(
        self,
        mesh: Mesh,
        life: Life,
        wanted: int,
        deadline: float,
        outcome: Outcome,
        place: saves.Place | None = None,
    ) -> None:
        self._wanted = wanted
        self.mesh, self.life, self.outcome = mesh, life, outcome
        self.act = act_of(mesh, place)
        self.copies = 0
        self.can_end = False
        """Whether there is a saved state from before."""
        self._deadline = deadline
        self._faults = list(reversed(life.faults))
        self._later: list[tuple[float, int, Undo]] = []
        self._order = itertools.count()
        self._last = self._looked = self._moved = time.monotonic()
        self._logged = 0

    def await_readers(self) -> None:
        """Wait until the dispatcher knows all readers of this life that were started."""
        mesh = self.mesh
        while counting.readers_in(mesh.status(), mesh.first) < len(mesh.readers):
            self._check(time.monotonic())
            time.sleep(TURN)

    def play(self) -> bool:
        """Go on until the pass is over, or else until all is to be killed; return which."""
        while True:
            now = time.monotonic()
            self._check(now)
            self._look(now)
            self.act.settle()
            share = self._progress(now) / self._wanted
            if self._is_to_end(share):
                return False
            self._undo(now)
            if (
                self._faults
                and self.act.has_begun
                and (share >= self._faults[-1].at or now > self._last + self.mesh.plan.patience)
            ):
                self._do(self._faults.pop(), now)
            if self._is_over():
                return True
            time.sleep(TURN)

    def _progress(self, now: float) -> int:
        logged = self.act.progress
        if logged != self._logged:
            if not self._logged:
                self._last = now
            else:
                self.outcome.stall = max(self.outcome.stall, now - self._moved)
            self._logged, self._moved = logged, now
        return logged

    def _is_to_end(self, share: float) -> bool:
        if self.life.until is None or share < self.life.until or self.act.saving:
            return False
        return self.can_end or self.act.newest_save is not None

    def _do(self, fault: Fault, now: float) -> None:
        self._last = now
        undo = self.act.do(fault)
        if undo is None:
            return
        self.outcome.faults[fault.kind] += 1
        if fault.lasts is not None:
            heapq.heappush(self._later, (now + fault.lasts, next(self._order), undo))

    def _undo(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            undo = heapq.heappop(self._later)[2]
            if (wait := undo()) is not None:
                heapq.heappush(self._later, (now + wait, next(self._order), undo))

    def _is_over(self) -> bool:
        """Whether the pass ended; see to it that it can."""
        if self.act.at_end:
            self.mesh.heal()
            self.act.restore_dispatcher()
            return True
        if not self._faults and not self._later:
            self.act.restore_all()
        return False

    def _look(self, now: float) -> None:
        if now >= self._looked + LOOK_EVERY and self.act.dispatcher_up:
            self._looked = now
            try:
                answers, stats = self.act.changes.answers, self.mesh.status()
                self.copies = max(self.copies, counting.copies_in(stats, self.mesh.first))
                mixture = counting.mixture_in(stats, self.mesh.first)
                if mixture is not None and self.mesh.plan.pipeline == weights.PIPELINE:
                    self.act.changes.look(mixture, answers)
            except PenstockError:
                pass  # it has just begun

    def _check(self, now: float) -> None:
        for process in self.mesh.all_processes():
            if process.failed:
                raise Stuck(f"{process.name} ended with {process.code}:\n{process.tail()}")
        if now > self._deadline:
            share = self.act.progress / self._wanted
            self.mesh.heal()
            (self.mesh.folder / "status.json").write_text(json.dumps(self._status(), indent=1))
            raise Stuck(f"not over within {self.mesh.plan.deadline} s; {share:.0%} was consumed")

    def _status(self) -> Any:
        try:
            return self.mesh.status()
        except PenstockError as exc:
            return str(exc)


def act_of(mesh: Mesh, place: saves.Place | None = None) -> Act:
    """Return who acts on *mesh*: that follows from how readers share what there is."""
    match mesh.plan.sharing:
        case None:
            return Act(mesh)
        case Ordered(None):
            return Act(mesh)
        case Ordered() as sharing:
            return StridedAct(mesh, sharing)
        case Rounds() as sharing:
            return ConsumersAct(mesh, sharing)
        case Cached() as sharing:
            return TrainersAct(mesh, sharing)
        case Saved() as sharing:
            assert place is not None
            return saves.SavesAct(mesh, sharing, place)
        case _:
            assert_never(mesh.plan.sharing)


@contextmanager
def _disk(plan: Plan, folder: Path) -> Iterator[Path | None]:
    """Have a disk of its own for a plan that fills it up, where there may be one."""
    if not plan.has(Kind.FULL_DISK):
        folder.mkdir(parents=True)
        yield None
        return
    with limits.small_disk(folder) as mounted:
        yield folder if mounted else None


def _end_within() -> float:
    """Return `END_WITHIN`, longer where several processes share each core."""
    return END_WITHIN * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _next_task(path: Path) -> int:
    """Return how many tasks there were when a state was saved; 0 of a pass that was over."""
    (passes,) = json.loads(path.read_text())["jobs"].values()
    return int(passes[0]["state"].get("next_task", 0))

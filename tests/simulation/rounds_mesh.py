"""A mesh whose job is read in rounds: it is started, tormented, and held against the laws."""

from __future__ import annotations

from collections import Counter

from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import Codec, DatasetId, IterationId, Mode
from penstock_dispatcher.core import rounds_record
from simulation.consumer import ConsumerSpec, SimConsumer
from simulation.mesh import run_and_restore
from simulation.rounds_ledger import RoundsLedger, SavedRounds
from simulation.rounds_plan import FAULTS, RoundsPlan
from simulation.runner import Work
from simulation.torment import Torment
from simulation.worker import VERSIONS, SimWorker
from simulation.world import LawBroken, Process
from tests.openings import opening

PATIENCE = 200.0
"""A pass that takes longer has hung."""

EVENTS = 40_000
"""What happens in a schedule, at most: if it is more, something goes round and round."""

STUCK = 60.0
"""Seconds for which a worker makes nothing in a schedule of that kind."""

AWAY = 14.0
"""Seconds for which a consumer is away in a schedule of that kind."""

SOON = 4.0
"""Seconds behind its last element, and the lease, within which a loop is told who is lost."""

MESSAGES = 150
"""The most messages in a second for each process: whatever fails, no more are sent."""


class RoundsMesh(Torment):
    """One schedule, from first start to the end of the pass."""

    def __init__(
        self, plan: RoundsPlan, origin: SavedRounds | None, *, trace: bool = False
    ) -> None:
        super().__init__(plan.seed * 2 + plan.again, trace=trace)
        self.plan, self.origin = plan, origin
        self.rough = plan.kind not in ("calm", "stuck", "absent")
        self.ledger = self.witness = RoundsLedger(self, plan, origin)
        self.streams = (SplitProviderSpec(("",), plan.size, None, plan.passes),)
        self.work = Work(plan.size, plan.passes, plan.nbytes, plan.room, fails=plan.fails)
        workers = [f"w{i}" for i in range(len(plan.workers))]
        consumers = [f"r{i}" for i in range(plan.consumers)]
        self.names = ["d", *workers, *consumers]
        twins = [f"t{index}" for _, index, _ in plan.twins]
        self.rates = {name: self.chance.uniform(0.97, 1.03) for name in [*self.names, *twins]}
        self.over: set[int] = set()
        """The consumers that came to the end of the pass."""
        self._pass = IterationId(0)
        self._superseded: set[str] = set()
        self._held_back: set[str] = set()
        self._sent = 0

    def run(self) -> RoundsMesh:
        """Run the schedule.

        Raises:
            LawBroken: when it is not what it should be.
        """
        plan = self.plan
        late = {f"w{i}": at for i, at in enumerate(plan.workers)}
        for name in self.names:
            self.at(late.get(name, 0.0) + self.chance.uniform(0, 1), self.start, name)
        for when, index, _ in plan.twins:
            self.at(when, self.start, f"t{index}")
        self.expect(plan.faults, FAULTS[plan.kind])
        if plan.kind == "stuck":
            self.at(self.chance.uniform(2, 6), self._stick)
        elif plan.kind == "absent":
            self.at(self.chance.uniform(0, 6), self._send_away)
        self.at(1.0, self._watch)
        self._read_to_end()
        while self._is_restored_anew():
            self._read_to_end()
        self.ledger.check_end(self.account(self.ledger.current))
        self.check_processes()
        return self

    def _read_to_end(self) -> None:
        """Let time pass until all consumers came to the end."""
        consumers = self.plan.consumers
        while len(self.over) < consumers and self.goes_on(PATIENCE):
            if self.events > EVENTS:
                raise LawBroken("law 15: it goes round and round")
        if len(self.over) < consumers:
            raise LawBroken("law 11: the pass does not end")

    def _is_restored_anew(self) -> bool:
        """Let last words be heard; return whether somebody late restored the saved state again."""
        self.hear_last_words(lambda: self.ledger.current)
        self._begin_again()
        return not self.over

    # --- processes ---

    def start(self, name: str) -> None:
        """Start a process, unless it lives, or has done its work, or another took its place."""
        if name in self._held_back:
            return
        if name[0] in "rt":
            if int(name[1:]) in self.over:
                return
            if name in self._superseded and self._alive(int(name[1:])):
                self.at(2.0, self.start, name)
                return
        super().start(name)

    def launch(self, name: str) -> SimConsumer:
        """See `Torment.launch`."""
        plan, index, life = self.plan, int(name[1:]), self.lives[name]
        mode = Mode.DYNAMIC if plan.dynamic else Mode.OFF
        request = opening(
            VERSIONS,
            DatasetId("fingerprint"),
            mode,
            "job",
            0,
            Codec.NONE,
            num_consumers=plan.consumers,
            ordered=plan.ordered,
            remainder=plan.remainder,
            restore=b"" if self.origin is None else self.origin.state,
            patience=plan.patience,
        )
        age = sum(old for _, of, old in plan.twins if name == f"t{of}" and life == 1)
        spec = ConsumerSpec(
            request,
            plan.habits[index],
            index,
            int((1000 + self.now - age) * 1e9),
            plan.frames,
            plan.nbytes,
            (plan.save_round, plan.save_for),
        )
        return SimConsumer(
            self, name, f"{name}.{life}", spec, self.ledger, self.start_round, self.behind
        )

    def gone(self, process: Process) -> None:
        """Start again what has ended, some time later; a consumer only if the pass goes on."""
        if isinstance(process, SimConsumer):
            if process.superseded:
                self._superseded.add(process.name)
            if process.finished:
                self._finishes(process)
                return
        self.at(self.chance.uniform(0.3, 9), self.start, process.name)

    def _finishes(self, process: SimConsumer) -> None:
        """Note who is done."""
        self._begin_again()
        if process.core.iteration in (self._pass, IterationId(0)):
            self.over.add(process.index)
        else:
            self.at(self.chance.uniform(0.3, 3), self.start, process.name)

    def _begin_again(self) -> None:
        """Have all begin again if one that came back alone restored the saved state once more.

        Where that state is the end, whoever read it has nothing to begin again.
        """
        if self.ledger.current != self._pass:
            before, self._pass = self.ledger.passes.get(self._pass), self.ledger.current
            if before is not None and before.last == before.first:
                return
            for index in sorted(self.over):
                self.at(self.chance.uniform(0.3, 3), self.start, f"r{index}")
            self.over.clear()

    def consumers(self) -> list[SimConsumer]:
        """Return the consumers that read."""
        return [p for p in self.processes.values() if isinstance(p, SimConsumer) and p.reads]

    def _alive(self, index: int) -> bool:
        alive = (p for p in self.processes.values() if isinstance(p, SimConsumer))
        return any(p.index == index for p in alive)

    def behind(self) -> int:
        """Return how far the slowest of the loops is."""
        places = (one.loop.next for one in self.consumers() if not one.loop.over)
        return min((place for place in places if place is not None), default=0)

    def start_round(self, consumer: SimConsumer, iteration: IterationId) -> int | None:
        """Return the round that a process asks to begin with: None for that of the others."""
        one = self.ledger.passes.get(iteration)
        others = (p for p in self.consumers() if p.index == consumer.index and p is not consumer)
        first = self.lives[consumer.name] == 1
        if one is None or self.plan.rejoin == "default" or first or any(others):
            return None
        if self.plan.rejoin == "own":
            place = one.place.get(consumer.index, one.first)
        else:
            place = max(one.place.values(), default=one.first)
        if place > one.told:  # somebody skipped to what is not there yet
            return None
        if self.plan.rejoin == "agreed":
            for other in self.consumers():
                if other.core.iteration == iteration:
                    other.loop.skip_to = max(other.loop.skip_to, place)
        return place

    # --- what happens to them ---

    def befall(self, what: str, process: Process, seconds: float) -> None:
        """See `Torment.befall`; consumers may leave before the end, too, or skip rounds."""
        super().befall(what, process, seconds)
        if not isinstance(process, SimConsumer) or not process.reads:
            return
        loop = process.loop
        if what == "leave":
            loop.wants_to_leave = True
        elif what == "ahead" and loop.next is not None:
            loop.skip_to = loop.next + self.chance.randint(1, 3)
        elif what == "catch up":
            loop.skip_to = max((one.loop.next or 0) for one in self.consumers())

    def _stick(self) -> None:
        """Have a worker make nothing; later on, all else is to be released."""
        worker = self.processes.get("w0")
        if isinstance(worker, SimWorker):
            worker.stuck_until = worker.now + STUCK
            self.at(0.95 * STUCK, self._check_unhindered)

    def _check_unhindered(self) -> None:
        """Law 7: what a stuck worker does not make stops nobody, where it need not be waited for.

        Without patience each task is waited for, as it is in order.
        """
        iteration, one = self.iteration(self.ledger.current), self.ledger.last
        patience = rounds_record.PATIENCE if self.plan.patience is None else self.plan.patience
        if self.plan.ordered or patience < 1 or iteration is None:
            return
        for task, known in one.tasks.items():
            if iteration.tasks[task].worker != "w0" and known.total is None:
                raise LawBroken(f"law 7: task {task} is held up by one that is stuck")
        self.stats["unhindered"] += 1

    def _send_away(self) -> None:
        """Have a consumer be away for longer than its lease; the others are to be told."""
        if (process := self.processes.get("r0")) is not None and 0 not in self.over:
            self._held_back.add("r0")
            process.end("it is away")
            self.at(AWAY, self._check_named, self.now)

    def _check_named(self, since: float) -> None:
        """Law 10: whoever waits for one that is away is told so."""
        self._held_back.discard("r0")
        self.at(0.0, self.start, "r0")
        if not self.ledger.passes:
            return  # it was gone before there was anything to read
        one = self.ledger.last
        told_by = max(since + 1.1 * AWAY / 2, self.now - SOON)
        for other in self.consumers():
            life = one.sessions[other.session]
            waits = life.next == one.released and life.took_at < told_by and not other.loop.over
            if waits and one.last is None and self.plan.save_round != life.next:
                self.stats["waits for one that is away"] += 1
                if life.told_of != {0}:
                    raise LawBroken(f"law 10: {other.session} waits, and is told of {life.told_of}")

    def _watch(self) -> None:
        """Law 15: however things fail, the number of messages a second is bounded."""
        self._begin_again()
        sent = self.stats["messages"] - self._sent
        self._sent = self.stats["messages"]
        self.stats["most messages"] = max(self.stats["most messages"], sent)
        if sent > MESSAGES * len(self.names):
            raise LawBroken(f"law 15: {sent} messages in a second")
        self.at(1.0, self._watch)


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule; and if a save succeeded in it, restore it with other counts."""

    def restored(mesh: RoundsMesh) -> RoundsMesh:
        return RoundsMesh(RoundsPlan.draw(seed, mesh.plan), mesh.ledger.saved, trace=trace)

    return run_and_restore(RoundsMesh(RoundsPlan.draw(seed), None, trace=trace), restored)

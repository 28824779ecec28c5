"""Workers and consumers of one job that is read in rounds, as chance drives them."""

import random

from penstock.protocol.control import AttemptProgress, WorkerHeartbeat
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Checkpoint, Mode, ReaderStatus
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.events import AppendFact, Tick, WorkerDead, WorkerDisconnected
from penstock_dispatcher.core.facts import ConsumerJoined, RoundsAdvanced
from penstock_dispatcher.core.settings import CoreSettings
from tests.dispatcher.core.coordinated import Consumer, Coordinated

LEASE = 2.0


class RandomConsumer(Consumer):
    """A process that fetches groups and takes rounds by what it was told."""

    def __init__(self, *args):
        super().__init__(*args)
        self.heard_at = 0.0
        self.entries, self.attempts, self.have = {}, {}, {}
        self.over = self.dead = False
        self.took = []

    def see(self, view):
        joined = self.id
        super().see(view)
        self.over |= view.finished
        if self.dead or view.rounds is None:
            return
        if joined is None and not self.took:
            self.taken = view.rounds.start
        for round_, entry in enumerate(view.rounds.entries, view.rounds.first):
            known = self.entries.setdefault(round_, (entry.task, entry.group))
            assert known == (entry.task, entry.group), "what is released stays"
        for name, task in view.tasks.items():
            coming = [g for r, (t, g) in self.entries.items() if t == name and r >= self.taken]
            least = min([*coming, task.released])
            if self.attempts.get(name) != task.attempt:
                self.have[name] = min(self.have.get(name, 0), task.released)
                self.attempts[name] = task.attempt
            self.have[name] = max(self.have.get(name, 0), least)
        self.held = {name: (self.attempts[name], n) for name, n in self.have.items()}

    def take(self, chance):
        last = self.view.rounds.last if self.view and self.view.rounds else None
        while chance.random() < 0.7 and self.taken in self.entries and self.taken != last:
            task, group = self.entries[self.taken]
            if self.have.get(task, 0) <= group:
                return
            self.took.append((self.taken, task, group))
            self.taken += 1


class RandomRounds(Coordinated):
    """One job around one core; now and then a process ends, a message or the core is lost."""

    def __init__(self, seed):
        self.chance = chance = random.Random(seed)
        self.log, self.told, self.granted = [], {}, []
        self.places, self.said = {}, {}
        self.runs, self.born, self.calm = {}, 0, False
        self.everybody = []
        settings = CoreSettings(
            worker_lease=1.5, reader_lease=6.0, consumer_lease=LEASE, sweep_interval=1.0, idle=900.0
        )
        mode = chance.choice([Mode.OFF, Mode.DYNAMIC])
        self.count = chance.choice([1, 2, 3, 4])
        self.elements = chance.choice([0, 5, 60, 200])
        super().__init__(
            self.count,
            mode,
            self.elements,
            settings,
            ordered=chance.random() < 0.3,
            remainder=chance.choice(["drop", "pad", "repeat"]),
        )
        for number in range(chance.choice([1, 2, 3])):
            self.start_worker(f"w{number}")
        for index in range(self.count):
            self.start_consumer(index)

    # --- what is checked at each fact ---

    def perform(self, effects):
        for effect in effects:
            if isinstance(effect, AppendFact):
                self.check(effect.fact)
        super().perform(effects)

    def check(self, fact):
        match fact:
            case RoundsAdvanced(_, entries, floor, _, last):
                for task in entries:
                    self.check_released(task)
                    self.log.append(task)
                assert self.core.state.iterations[fact.iteration].rounds.last in (None, last)
                for consumer in self.everybody:
                    if consumer.view is not None and not consumer.dead:
                        assert floor <= consumer.taken, "not all have taken what is settled"
                own = [self.places.get(index, 0) for index in range(self.count)]
                assert floor <= min(own), "one that took less can never come back to its place"
            case ConsumerJoined(_, _, index, _, start):
                rounds = self.rounds
                assert rounds.floor <= start <= rounds.released
                self.granted.append((index, start))

    def check_released(self, task):
        """Each member told, in this life of the core, that it has the next group of *task*."""
        group, attempt = self.log.count(task), self.task(task).attempt
        for member in self.rounds.members.values():
            report = self.told[member.reader]
            (held,) = [one for one in report.held if one.task == task]
            assert held.attempt == attempt
            assert held.groups > group

    # --- what may happen ---

    def start_worker(self, name):
        self.incarnation[name] = self.incarnation.get(name, 0) + 1
        self.progress[name] = {}
        self.work_beat(name)

    def kill_worker(self, name):
        self.tell(WorkerDisconnected(name, self.incarnation[name]))
        self.tell(WorkerDead(name, self.incarnation[name]))
        self.start_worker(name)

    def work(self):
        """Let workers make elements of what they are assigned."""
        for name in self.incarnation:
            for run in self.assignments[name].tasks if name in self.assignments else ():
                made, ended = self.runs.get((run.task, run.attempt), (run.checkpoint.number, False))
                total, closed = self.total(run.task)
                made = min(total, made + self.chance.randint(0, 5))
                self.runs[run.task, run.attempt] = made, closed and made == total
                if not closed and self.task_runs(run, name):
                    self.ask(run.task)

    def total(self, name):
        """Return how many elements there are of a task so far, and whether that is all."""
        if self.mode is Mode.OFF:
            return self.elements, True
        splits = self.splits.get(name, [])
        return sum(map(len, splits)), any(not split for split in splits)

    @property
    def splits(self):
        found = {}
        for fact in self.facts:
            if isinstance(fact, f.SplitsGranted):
                found.setdefault(fact.task, []).extend(fact.splits)
        return found

    def task_runs(self, run, name):
        known = self.core.state.task(run.task)
        return known is not None and (known.attempt, known.worker) == (run.attempt, name)

    def work_beat(self, name):
        progress = {}
        for run in self.assignments[name].tasks if name in self.assignments else ():
            known = self.runs.get((run.task, run.attempt))
            if known is not None and self.task_runs(run, name):
                floor = self.task(run.task).acked.floor
                at = min(floor, known[0])
                state = Checkpoint(at) if self.chance.random() < 0.5 else None
                more = {"checkpoint": state, "ended": known[1], "done": known[1]}
                progress[run.task] = AttemptProgress(run.attempt, known[0], AckedSet(floor), **more)
        self.tell(WorkerHeartbeat(name, self.incarnation[name], 0, progress))

    def start_consumer(self, index, start=None):
        self.born += 1
        name = f"c{index}.{self.born}"
        consumer = RandomConsumer(name, index, self.born, start, self.iteration)
        self.readers[name] = consumer
        self.everybody = [one for one in self.everybody if one.index != index] + [consumer]
        self.report(consumer)

    def fetch(self, consumer):
        """Fetch the next groups that the newest attempts have made."""
        for name, attempt in consumer.attempts.items():
            known = self.rounds.tasks.get(name)
            made = self.runs.get((name, attempt))
            if known is None or made is None or consumer.dead:
                continue
            groups = self.rounds.grouped(name).count(made[0], ended=made[1])
            if consumer.have[name] < groups:
                least = consumer.have[name] + self.chance.randint(0, 3)
                consumer.have[name] = min(groups, least)
        consumer.held = {name: (consumer.attempts[name], n) for name, n in consumer.have.items()}

    def report(self, consumer):
        if consumer.dead or consumer.over or consumer.failure:
            return
        heartbeat = consumer.heartbeat()
        if not self.calm and self.chance.random() < 0.1:
            return  # lost
        if heartbeat.reader is not None:
            self.told[heartbeat.reader] = self.said[heartbeat.reader] = heartbeat.rounds
            self.places[consumer.index] = heartbeat.rounds.taken
        consumer.heard_at = self.now
        self.tell(heartbeat)
        for index, start in self.granted:
            if index == consumer.index and consumer.start is None and consumer.id is not None:
                self.check_default(consumer, start)
        self.granted.clear()

    def check_default(self, consumer, start):
        for other, member in self.rounds.members.items():
            live = self.record.readers[member.reader].status is ReaderStatus.LIVE
            report, told = self.said.get(member.reader), self.heard_lately(member.reader)
            if other != consumer.index and live and report is not None and told:
                assert start >= report.taken, "it begins behind one that reads"

    def heard_lately(self, reader):
        return any(one.id == reader and self.now - one.heard_at <= LEASE for one in self.everybody)

    def kill_consumer(self, consumer, *, anywhere=True):
        consumer.dead = True
        place = consumer.taken
        known = self.rounds
        start = self.chance.choice([None, place, known.released, known.floor])
        if not anywhere:
            start = None
        if start is not None and not known.floor <= start <= known.released:
            start = None
        self.start_consumer(consumer.index, start)

    def tick(self):
        self.now += self.chance.uniform(0, 0.3)
        self.tell(Tick())
        for consumer in self.everybody:
            if consumer.view is not None and consumer.view.rounds is not None:
                for one in consumer.view.rounds.lost:
                    (named,) = [each for each in self.everybody if each.index == one.index]
                    if "silent" in one.description and named.heard_at == self.now:
                        assert consumer.view.seq != consumer.seq, "one that lives is named"

    def restart(self):
        super().restart()
        self.told.clear()
        known = self.rounds
        if not self.record.finished:
            assert [entry.task for entry in known.entries()] == self.log[known.floor :]
        if not self.calm and not self.record.finished and self.chance.random() < 0.5:
            self.kill_consumer(self.chance.choice(self.everybody), anywhere=False)
        for name in self.incarnation:
            self.work_beat(name)

    def step(self):
        self.tick()
        if self.record.finished:
            return
        self.work()
        for name in self.incarnation:
            if self.chance.random() < 0.6:
                self.work_beat(name)
        for consumer in list(self.everybody):
            self.fetch(consumer)
            consumer.take(self.chance)
            if self.chance.random() < 0.7:
                self.report(consumer)
        if self.calm:
            return
        kind = self.chance.random()
        if kind < 0.03:
            self.restart()
        elif kind < 0.06:
            self.kill_worker(self.chance.choice(list(self.incarnation)))
        elif kind < 0.09:
            self.kill_consumer(self.chance.choice(self.everybody))
        elif kind < 0.11:
            self.now += self.chance.uniform(0, 2 * LEASE)
        elif kind < 0.12:
            self.now += 20.0
            self.tell(Tick())

    def settle(self):
        """Let the pass come to its end."""
        self.calm = True
        for _ in range(2000):
            self.step()
            if self.record.finished:
                return
            for consumer in list(self.everybody):
                if consumer.failure is not None:
                    self.start_consumer(consumer.index)
        raise AssertionError("the pass does not end")

"""Random, sensible facts for a journal, written and loaded."""

import copy
import random

from penstock.protocol.calls import Registration
from penstock.protocol.control import (
    AttemptProgress,
    ReaderHeartbeat,
    SplitRequest,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import MixtureOutline, SplitProviderSpec
from penstock.protocol.mixture import WeightStage
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import PROTOCOL, Checkpoint, Codec, Mode, SourceSlice, Versions
from penstock_dispatcher.core.events import (
    AppendFact,
    OpenIteration,
    RegisterDataset,
    SetWeights,
    StartHistory,
    Tick,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal import snapshot
from penstock_dispatcher.journal.store import Store
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
SETTINGS = CoreSettings(
    worker_lease=5, reader_lease=30, idle=60, sweep_interval=10, dataset_idle=20.0
)
MIXTURE = MixtureOutline(
    ("web", "code"), (WeightStage(0, (1, 1)),), (None, 70), cuts=(SourceSlice(0, 1000),)
)


class RandomFacts:
    """A core that hears random, sensible things; `step` returns the facts that follow."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.now, self.calls, self.lives = 0.0, 0, 0
        self.core = DispatcherCore(DispatcherState(), SETTINGS, 0.0)
        self.begun = False

    @property
    def state(self):
        return self.core.state

    def step(self):
        if not self.begun:
            self.begun = True
            return self.hear(StartHistory(1000)) + self.register(0)
        self.now += 0.3
        action = self.rng.choice(
            [self.register, self.open, self.join, self.work, self.work, self.read, self.split]
            + [self.split, self.wait, self.weigh]
        )
        facts = action()
        self.core.take_views(self.now)
        return facts

    def hear(self, signal):
        return [e.fact for e in self.core.handle(signal, self.now) if isinstance(e, AppendFact)]

    def register(self, number=None):
        self.calls += 1
        name = f"set{self.rng.randrange(5) if number is None else number}"
        asked = None
        if number is None:
            asked = Registration(f"id of {name}" if name == "set1" else "", Codec.LZ4, b"spec")
        providers = (SplitProviderSpec(("s",), 1000, mixture=MIXTURE),)
        return self.hear(
            RegisterDataset(self.calls, VERSIONS, name, providers, "", registration=asked)
        )

    def open(self):
        self.calls += 1
        job = self.rng.choice([None, "a", "b", "c"])
        repetition = self.rng.randrange(1, 4)
        mode = Mode.DYNAMIC if job != "c" else Mode.OFF
        request = opening(VERSIONS, "set0", mode, job, repetition, Codec.NONE)
        return self.hear(OpenIteration(self.calls, request, self.rng.getrandbits(63)))

    def join(self):
        open_ = [name for name, one in self.state.iterations.items() if not one.finished]
        if not open_:
            return self.open()
        session = f"t{self.rng.randrange(50)}"
        return self.hear(ReaderHeartbeat(self.rng.choice(open_), session, None, 1))

    def work(self):
        worker = f"w:{self.rng.randrange(3)}"
        if worker not in self.state.workers or self.rng.random() < 0.03:
            self.lives += 1
            return self.hear(WorkerHeartbeat(worker, self.lives, -1, versions=VERSIONS))
        known, progress = self.state.workers[worker], {}
        for task in known.tasks:
            one = self.state.task(task)
            number = max(one.checkpoint.number, one.acked.floor) + self.rng.randrange(5)
            positions = tuple(log.stop for log in one.logs)
            state = Checkpoint(number, positions, '{"k": [1]}')
            done = self.rng.random() < 0.4
            taken = AckedSet(
                number, RangeSet.of((number + 3, number + 5)) if not done else RangeSet()
            )
            progress[task] = AttemptProgress(one.attempt, number, taken, state, done=done)
        revision = self.state.revision
        return self.hear(WorkerHeartbeat(worker, known.incarnation, revision, progress))

    def read(self):
        facts = []
        for name, one in list(self.state.iterations.items()):
            for session, reader in list(one.sessions.items()):
                if reader not in one.live:
                    continue
                reports = {
                    task: TaskReport(t.attempt + (t.worker is None), t.acked, RangeSet())
                    for task, t in one.tasks.items()
                }
                leaving = self.rng.random() < 0.1
                beat = int(self.now * 100)
                facts += self.hear(
                    ReaderHeartbeat(name, session, reader, beat, reports, leaving=leaving)
                )
        return facts

    def split(self):
        running = [t for w in self.state.workers.values() for t in w.tasks]
        drawing = [t for t in running if self.state.task(t).logs]
        if not drawing:
            return self.work()
        name = self.rng.choice(drawing)
        task = self.state.task(name)
        life = self.state.workers[task.worker].incarnation
        at = task.logs[0].stop
        return self.hear(SplitRequest(task.worker, life, name, task.attempt, 0, at))

    def weigh(self):
        self.calls += 1
        weights = {"web": float(self.rng.randrange(1, 5)), "code": 1.0}
        return self.hear(SetWeights(self.calls, self.rng.choice("ab"), weights, None))

    def wait(self):
        facts = []
        for _ in range(self.rng.choice([1, 1, 1, 30, 300])):
            self.now += 0.25
            facts += self.hear(Tick())
        return facts


def copied(state):
    """Return a state that later changes do not reach."""
    return copy.deepcopy(state)


def written(store, facts, length):
    store.append(length, snapshot.encode_facts(map(snapshot.encode_fact, facts)))


def loaded(file):
    with Store(file, power=False) as store:
        return store.load().state

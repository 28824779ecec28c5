"""A small world around the dispatcher's core, in which now and then something is lost."""

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace

from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import (
    Assignment,
    ReaderHeartbeat,
    SaveBarrier,
    SplitGrant,
    SplitRequest,
    TaskReport,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.definition import MixtureOutline, SplitProviderSpec
from penstock.protocol.mixture import WeightStage
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Codec, Failure, Mode, ReaderStatus, SourceSlice
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.events import (
    AppendFact,
    CloseReaderStream,
    DrainWorker,
    OpenIteration,
    ReaderDisconnected,
    RegisterDataset,
    ReplyToCall,
    SendCommand,
    SendView,
    SetWeights,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.core.task_views import draw
from tests.dispatcher.core.random_peers import VERSIONS, Reader, Run, Worker
from tests.openings import changed, opening

WEIGHTS = -1
"""The call in which somebody changes weights: it may be refused."""


class RandomCluster:
    """Some workers, readers and jobs around one core; now and then something is lost."""

    modes = (Mode.DYNAMIC, Mode.DYNAMIC, Mode.OFF)
    """Those of jobs without a name."""
    named = Mode.DYNAMIC
    listed = ()
    """The list of workers; the first of them come back in the end."""

    def __init__(self, seed, gc_dynamic=False):
        self.chance = random.Random(seed)
        self.now, self.facts, self.calls = 50.0, [], {}
        settings = CoreSettings(
            reader_lease=3.0,
            idle=40.0,
            gc_dynamic=gc_dynamic,
            sweep_interval=1.0,
            worker_addresses=self.listed,
        )
        self.core = DispatcherCore(DispatcherState(), settings, self.now)
        self.workers, self.lives, self.readers = {}, Counter(), []
        self.words, self.barriers, self.told = {}, {}, defaultdict(AckedSet)
        self.states, self.results = [], {}
        self.passes = {}
        self.gc_dynamic = gc_dynamic
        self.datasets = {}
        self.calm = False
        self.tell(StartHistory(seed))
        mixed = random.Random(f"mixtures {seed}")
        for name in "ab":
            streams = tuple(
                SplitProviderSpec(
                    (f".{i}",),
                    self.chance.choice([0, 1, 7, 60, 1000]),
                    None,
                    self.chance.choice([1, 1, 3]),
                    self.chance.choice([1, 1, 8]),
                )
                for i in range(self.chance.choice([1, 1, 2]))
            )
            streams = tuple(of_mixture(one, i, mixed) for i, one in enumerate(streams))
            self.datasets[name] = streams
            self.tell(RegisterDataset(1, VERSIONS, name, streams, ""))

    def tell(self, signal):
        if isinstance(signal, WorkerHeartbeat):
            for task, progress in signal.progress.items():
                self.told[task] |= progress.acked
        self.perform(self.core.handle(signal, self.now))
        if self.chance.random() < 0.8:
            self.perform(self.core.take_views(self.now))

    def perform(self, effects):
        for effect in effects:
            match effect:
                case AppendFact(fact):
                    self.check(fact)
                    self.facts.append(fact)
                case SendCommand(worker, incarnation, order):
                    self.order(worker, incarnation, order)
                case SendView(view):
                    self.view(view)
                case ReplyToCall(call) if call == WEIGHTS:
                    pass
                case ReplyToCall(call, OpenIterationReply(iteration)):
                    self.calls.pop(call).iteration = iteration
                case ReplyToCall(call, Failure() as failure):
                    kinds = {"Unavailable"} | ({"JobForgotten"} if self.gc_dynamic else set())
                    assert failure.kind in kinds, failure.error()
                    self.readers.remove(self.calls.pop(call))
                case CloseReaderStream(session, failure):
                    assert failure.kind == "Superseded", failure.error()
                    for reader in self.readers:
                        reader.superseded |= reader.session == session

    def check(self, fact):
        """Laws that hold at the moment when a fact is decided."""
        state = self.core.state
        match fact:
            case f.AttemptStarted(task, attempt, _, taken, held) if attempt > 1:
                for reader, session in self.live(state.owners[task]):
                    report = self.words.get(session, {}).get(task)
                    assert report is not None, "a live reader did not report"
                    assert report.fence >= attempt, "a live reader accepts the old attempt"
                    assert held.get(reader, RangeSet()) == report.buffered - taken.ranges
            case f.CheckpointSaved(task, state):
                assert state.number <= self.told[task].floor, (
                    "a checkpoint is ahead of what is acked"
                )
            case f.SaveCompleted(iteration, result):
                key = iteration, result.number
                assert key not in self.results, "a save has one result"
                self.results[key] = result
                if result.state:
                    self.states.append(result.state)
                    for _, session in self.live(iteration):
                        assert self.barriers.get(session) == (result.number, result.label)

    def live(self, iteration):
        known = self.core.state.iterations[iteration]
        return [(reader, known.readers[reader].session) for reader in known.live]

    def order(self, name, incarnation, order):
        worker = self.workers.get(name)
        if worker is None or worker.incarnation != incarnation:
            return
        if isinstance(order, WorkerRefused):
            del self.workers[name]
            return
        if not self.calm and self.chance.random() < 0.1:
            return  # lost
        match order:
            case Assignment():
                assert order.revision >= worker.revision, "assignments are dated in order"
                worker.revision, worker.draining = order.revision, order.drain
                listed = {(run.task, run.attempt): run for run in order.tasks}
                worker.runs = {t: r for t, r in worker.runs.items() if (t, r.attempt) in listed}
                for (task, attempt), run in listed.items():
                    if (task, attempt) not in worker.started:
                        worker.started.add((task, attempt))
                        streams = self.datasets[run.dataset] if run.logs else ()
                        passes = [s.passes if s.units else 1 for s in streams]
                        worker.runs[task] = Run(run, passes)
            case SplitGrant(task):
                if task in worker.runs:
                    worker.runs[task].granted(order)

    def view(self, view):
        for reader in self.readers:
            if reader.session == view.session:
                assert view.revision >= reader.revision, "views are dated in order"
                reader.revision = view.revision
                reader.id = view.reader if view.status is ReaderStatus.LIVE else None
                reader.finished |= view.finished
                reader.saves = view.next_save
                for name, task in self.known(reader, view).items():
                    reader.fences[name] = task.attempt + (task.worker is None)
                if view.status is ReaderStatus.EXPIRED:
                    reader.cut = None  # a reader that expired at its barrier may never hear
                    continue
                for result in view.save_results:
                    known = self.results.get((reader.iteration, result.number))
                    assert reader.finished or reader.left or known == result, (
                        "a result is the same for all"
                    )
                    reader.cut = None

    def known(self, reader, view):
        """What a reader knows of its tasks: whatever was lost, all when a view arrives."""
        iteration = self.core.state.iterations.get(reader.iteration)
        live = view.status is ReaderStatus.LIVE and not view.finished
        if iteration is None or iteration.finished or not live or self.chance.random() < 0.2:
            return {}  # lost
        tasks = reader.known.take(view)
        assert tasks == draw(self.core.state, iteration, None).tasks
        return tasks

    # --- what may happen ---

    def step(self):
        self.now += self.chance.uniform(0, 0.4)
        self.tick()
        self.chance.choice(
            [self.work, self.work, self.beat, self.beat, self.read, self.read, self.new]
            + ([] if self.calm else [self.trouble, self.weigh])
        )()

    def tick(self):
        self.tell(Tick())

    def new(self):
        if len(self.readers) < 6 and not self.calm:
            reader = Reader(f"r{len(self.readers)}")
            self.readers.append(reader)
            job = self.chance.choice(["j", None])
            self.calls[len(self.readers)] = reader
            request = opening(
                VERSIONS,
                self.chance.choice("ab") if job is None else "a",
                self.chance.choice(self.modes) if job is None else self.named,
                job,
                1 if job is None else self.chance.choice([1, 2]),
                Codec.NONE,
            )
            if self.states and self.chance.random() < 0.3:
                request = self.restoring(request)
            self.tell(OpenIteration(len(self.readers), request, self.chance.getrandbits(63)))
        elif len(self.workers) < 3:
            self.start_worker(f"w{len(self.lives) % 4}")

    def weigh(self):
        """Change the weights of a mixture; tell whoever asks that it cannot be."""
        jobs = list(self.core.state.jobs)
        if not jobs:
            return
        number, chance = self.chance.randrange(2), self.chance
        weights = {name: float(chance.randint(0, 4)) for name in names_of(number)}
        at = chance.choice([None, None, chance.randint(0, 60)])
        self.tell(SetWeights(WEIGHTS, chance.choice(jobs), weights, at))

    def asked_again(self, repetition):
        request = opening(VERSIONS, "a", self.named, "j", repetition, Codec.NONE)
        effects = self.core.handle(OpenIteration(99, request, 1), self.now)
        return next(effect.answer for effect in effects if isinstance(effect, ReplyToCall))

    def restoring(self, request):
        saved = self.chance.choice(self.states)
        state = json.loads(saved)
        named = state["fingerprint"] == "a" and state["mode"] == self.named.value
        return changed(
            request,
            dataset=state["fingerprint"],
            mode=Mode(state["mode"]),
            job_name=request.job_name if named else None,
            restore=saved,
        )

    def start_worker(self, name):
        self.lives[name] += 1
        self.workers[name] = Worker(name, self.lives[name])
        self.tell(self.workers[name].beat(self.chance))

    def kill(self, name):
        worker = self.workers.pop(name)
        self.tell(WorkerDisconnected(name, worker.incarnation))
        self.tell(WorkerDead(name, worker.incarnation))

    def work(self):
        for worker in self.workers.values():
            for task, run in list(worker.runs.items()):
                for stream, position in run.step():
                    ask = SplitRequest(
                        worker.name, worker.incarnation, task, run.attempt, stream, position
                    )
                    self.tell(ask)

    def beat(self):
        for worker in list(self.workers.values()):
            self.tell(worker.beat(self.chance))

    def read(self):
        for reader in list(self.readers):
            if reader.iteration is None or reader.finished or reader.left or reader.superseded:
                continue
            if not self.calm and self.now < reader.asleep:
                continue
            reader.beats += 1
            reports = {}
            for task, fence in reader.fences.items():
                floor = min(self.told[task].floor, 3)
                buffered = RangeSet.of((floor + 1, floor + 1 + self.chance.randint(0, 2)))
                reports[task] = TaskReport(fence, AckedSet(floor), buffered)
            leaving = not self.calm and self.chance.random() < 0.01
            reader.left = leaving
            seen = reader.id is not None
            if seen and reader.cut is None and not self.calm and self.chance.random() < 0.1:
                label = self.chance.choice(["", "x", "x"])
                reader.cut = SaveBarrier(reader.saves, label, self.chance.uniform(0.2, 5))
            beat = ReaderHeartbeat(
                reader.iteration,
                reader.session,
                reader.id,
                reader.beats,
                reports,
                reader.cut,
                leaving,
                reader.beats,
                tasks_as_of=reader.known.as_of,
            )
            self.words[reader.session] = reports
            self.barriers[reader.session] = reader.cut and (reader.cut.number, reader.cut.label)
            self.tell(beat)

    def trouble(self):
        if self.readers and self.chance.random() < 0.1:
            reader = self.chance.choice(self.readers)
            reader.asleep = self.now + self.chance.uniform(1, 9)
            if reader.iteration is not None:
                self.tell(ReaderDisconnected(reader.iteration, reader.session))
        if self.chance.random() < 0.03:
            self.restart()
        if not self.workers or self.chance.random() < 0.9:
            return
        name = self.chance.choice(list(self.workers))
        kind = self.chance.random()
        if kind < 0.3:
            self.start_worker(name)
        elif kind < 0.4:
            self.tell(DrainWorker(7, name))
        elif kind < 0.5:
            self.kill(name)
        elif kind < 0.8:
            worker = self.workers[name]
            self.tell(WorkerDisconnected(name, worker.incarnation))
        else:
            self.now += self.chance.uniform(2, 8)
            self.tick()

    def restart(self):
        """Kill the dispatcher: what it has not sent is sent again by itself."""
        state = DispatcherState()
        for fact in self.facts:
            state.apply(fact)
        assert state == self.core.state, "replay gives the state"
        self.words, self.barriers = {}, {}
        self.core = DispatcherCore(state, self.core.ctx.settings, self.now)
        for worker in self.workers.values():
            self.tell(replace(worker.beat(self.chance), versions=VERSIONS))

    def settle(self):
        """Let everything that can end come to its end."""
        self.calm = True
        for name in list(self.workers):
            self.kill(name)  # those that drain, and those that missed an assignment
        for name in self.listed or ("w0",):
            self.start_worker(name)
        for _ in range(4000):
            self.work()
            self.beat()
            self.read()
            self.now += 0.3
            self.tick()
            if all(self.over(reader) for reader in self.readers):
                return
        raise AssertionError("a reader waits for ever")

    def over(self, reader):
        iteration = self.core.state.iterations.get(reader.iteration)
        return reader.finished or reader.left or reader.superseded or iteration is None


def of_mixture(spec, number, chance):
    """Let the units of *spec* be turns of a mixture, in some cases."""
    if not spec.units or chance.random() < 0.4:
        return spec
    stages, cuts = (WeightStage(0, (chance.randint(1, 3), 1)),), (SourceSlice(0, spec.units),)
    mixture = MixtureOutline(names_of(number), stages, (None, 7), seed=number, cuts=cuts)
    return replace(spec, mixture=mixture)


def names_of(number):
    """Return the names of the sources of a mixture."""
    return f"web {number}", f"code {number}"


def run_world(seed, kind=RandomCluster, **settings):
    world = kind(seed, **settings)
    for _ in range(250):
        world.step()
    return world

"""What no scenario can say: laws that hold for every run of the dispatcher's mind."""

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from typing import get_args

import msgspec
import pytest

from penstock.messages import (
    Assignment,
    Codec,
    Cut,
    Failure,
    Holding,
    Mode,
    Opened,
    OpenRequest,
    Progress,
    ReaderBeat,
    SplitGrant,
    SplitRequest,
    Versions,
    Work,
    WorkerBeat,
)
from penstock.numbers import EngineState, Runs, Standing, Taken
from penstock.sharding import Stream
from penstock_dispatcher.core import Books, Core, Settings
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.signals import (
    Answer,
    Begin,
    Drain,
    HangUp,
    LineBroken,
    OpenIteration,
    ReaderLineBroken,
    Register,
    Send,
    Show,
    Tick,
    WorkerGone,
    Write,
)

VERSIONS = Versions(1, "3.11", "0")


class Run:
    """What a worker makes of one order: a unit of the source is an element."""

    def __init__(self, order, passes):
        self.attempt = order.attempt
        self.logs = [list(log.splits) for log in order.logs]
        self.starts = [log.start for log in order.logs]
        positions = order.state.positions or self.starts
        self.places = [at - start for at, start in zip(positions, self.starts)]
        self.passes = passes
        self.ended = json.loads(order.state.state) or [0] * len(self.logs)
        self.made = order.state.number
        self.taken = order.taken
        self.states = []

    def step(self):
        """Use up one split of each log; return what to ask for."""
        asks = []
        for stream, log in enumerate(self.logs):
            at = self.places[stream]
            if self.ended[stream] == self.passes[stream]:
                continue
            if at < len(log):
                self.made += len(log[at])
                self.ended[stream] += not log[at]
                self.places[stream] += 1
            if self.places[stream] >= len(log) - 1 and self.ended[stream] < self.passes[stream]:
                asks.append((stream, self.starts[stream] + len(log)))
        if self.made % 3 == 0:
            positions = tuple(s + p for s, p in zip(self.starts, self.places))
            self.states.append(EngineState(self.made, positions, json.dumps(self.ended)))
        return asks

    def granted(self, grant):
        log = self.logs[grant.stream]
        if grant.position == self.starts[grant.stream] + len(log):
            log.extend(grant.splits)

    @property
    def done(self):
        return not self.logs or all(e == p for e, p in zip(self.ended, self.passes))


class Worker:
    def __init__(self, name, incarnation):
        self.name, self.incarnation, self.as_of = name, incarnation, -1
        self.runs, self.started = {}, set()
        self.draining = False

    def beat(self, chance):
        progress = {}
        if self.draining and chance.random() < 0.3:
            self.runs.clear()  # its deadline is over
        for task, run in self.runs.items():
            done = run.done and chance.random() < 0.7
            run.taken |= Taken(run.made if run.done else max(0, run.made - 2))
            taken = run.taken
            states = [state for state in run.states if state.number <= taken.floor]
            state = states[-1] if states else None
            work = Work(run.made, sent=run.made)
            progress[task] = Progress(run.attempt, run.made, taken, state, done, None, work)
        running = {(task, run.attempt) for task, run in self.runs.items()}
        ended = frozenset(self.started - running)
        return WorkerBeat(self.name, self.incarnation, self.as_of, progress, ended, self.draining)


class Reader:
    def __init__(self, token):
        self.token, self.id, self.iteration, self.beats, self.finished = token, None, None, 0, False
        self.left = self.superseded = False
        self.as_of = -1
        self.fences, self.saves, self.cut = {}, 0, None
        self.asleep = 0.0


class World:
    """Some workers, readers and jobs around one mind; now and then something is lost."""

    def __init__(self, seed, gc_dynamic=False):
        self.chance = random.Random(seed)
        self.now, self.facts, self.calls = 50.0, [], {}
        settings = Settings(reader_lease=3.0, idle=40.0, gc_dynamic=gc_dynamic, sweep_interval=1.0)
        self.core = Core(Books(), settings, self.now)
        self.workers, self.lives, self.readers = {}, Counter(), []
        self.words, self.cuts, self.told = {}, {}, defaultdict(Taken)
        self.states, self.judged = [], {}
        self.passes = {}
        self.gc_dynamic = gc_dynamic
        self.datasets = {}
        self.calm = False
        self.tell(Begin(seed))
        for name in "ab":
            streams = tuple(
                Stream(
                    (f".{i}",),
                    self.chance.choice([0, 1, 7, 60, 1000]),
                    None,
                    self.chance.choice([1, 1, 3]),
                    self.chance.choice([1, 1, 8]),
                )
                for i in range(self.chance.choice([1, 1, 2]))
            )
            self.datasets[name] = streams
            self.tell(Register(1, VERSIONS, name, streams, ""))

    def tell(self, signal):
        if isinstance(signal, WorkerBeat):
            for task, progress in signal.progress.items():
                self.told[task] |= progress.taken
        self.perform(self.core.handle(signal, self.now))
        if self.chance.random() < 0.8:
            self.perform(self.core.push(self.now))

    def perform(self, effects):
        for effect in effects:
            match effect:
                case Write(fact):
                    self.check(fact)
                    self.facts.append(fact)
                case Send(worker, incarnation, order):
                    self.order(worker, incarnation, order)
                case Show(view):
                    self.view(view)
                case Answer(call, Opened(iteration)):
                    self.calls.pop(call).iteration = iteration
                case Answer(call, Failure() as failure):
                    kinds = {"Unavailable"} | ({"JobForgotten"} if self.gc_dynamic else set())
                    assert failure.kind in kinds, failure.error()
                    self.readers.remove(self.calls.pop(call))
                case HangUp(token, failure):
                    assert failure.kind == "Superseded", failure.error()
                    for reader in self.readers:
                        reader.superseded |= reader.token == token

    def check(self, fact):
        """Laws that hold at the moment when a fact is decided."""
        books = self.core.books
        match fact:
            case f.AttemptStarted(task, attempt, _, taken, held) if attempt > 1:
                for reader, token in self.live(books.owners[task]):
                    holding = self.words.get(token, {}).get(task)
                    assert holding is not None, "a live reader gave no word"
                    assert holding.fence >= attempt, "a live reader accepts the old attempt"
                    assert held.get(reader, Runs()) == holding.buffered - taken.runs
            case f.StateSaved(task, state):
                assert state.number <= self.told[task].floor, "a state is ahead of what is taken"
            case f.SaveJudged(iteration, verdict):
                key = iteration, verdict.number
                assert key not in self.judged, "a save is judged once"
                self.judged[key] = verdict
                if verdict.state:
                    self.states.append(verdict.state)
                    for _, token in self.live(iteration):
                        assert self.cuts.get(token) == (verdict.number, verdict.label)

    def live(self, iteration):
        known = self.core.books.iterations[iteration]
        return [(reader, known.readers[reader].token) for reader in known.live]

    def order(self, name, incarnation, order):
        worker = self.workers.get(name)
        if worker is None or worker.incarnation != incarnation:
            return
        if not self.calm and self.chance.random() < 0.1:
            return  # lost
        match order:
            case Assignment():
                assert order.as_of >= worker.as_of, "orders are dated in order"
                worker.as_of, worker.draining = order.as_of, order.drain
                listed = {(run.task, run.attempt): run for run in order.runs}
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
            if reader.token == view.token:
                assert view.as_of >= reader.as_of, "views are dated in order"
                reader.as_of = view.as_of
                reader.id = view.reader if view.standing is Standing.LIVE else None
                reader.finished |= view.finished
                reader.saves = view.saves
                for name, task in view.tasks.items():
                    reader.fences[name] = task.attempt + (task.worker is None)
                if view.standing is Standing.GONE:
                    reader.cut = None  # who was given up at its cut may never hear
                    continue
                for verdict in view.verdicts:
                    judged = self.judged.get((reader.iteration, verdict.number))
                    assert reader.finished or reader.left or judged == verdict, (
                        "a verdict is the same for all"
                    )
                    reader.cut = None

    # --- what may happen ---

    def step(self):
        self.now += self.chance.uniform(0, 0.4)
        self.tick()
        self.chance.choice(
            [self.work, self.work, self.beat, self.beat, self.read, self.read, self.new]
            + ([] if self.calm else [self.trouble])
        )()

    def tick(self):
        self.tell(Tick())

    def new(self):
        if len(self.readers) < 6 and not self.calm:
            reader = Reader(f"r{len(self.readers)}")
            self.readers.append(reader)
            job = self.chance.choice(["j", None])
            self.calls[len(self.readers)] = reader
            request = OpenRequest(
                VERSIONS,
                self.chance.choice("ab") if job is None else "a",
                self.chance.choice([Mode.DYNAMIC, Mode.DYNAMIC, Mode.OFF])
                if job is None
                else Mode.DYNAMIC,
                job,
                1 if job is None else self.chance.choice([1, 2]),
                Codec.NONE,
            )
            if self.states and self.chance.random() < 0.3:
                request = self.restoring(request)
            self.tell(OpenIteration(len(self.readers), request, self.chance.getrandbits(63)))
        elif len(self.workers) < 3:
            self.start_worker(f"w{len(self.lives) % 4}")

    def asked_again(self, repetition):
        request = OpenRequest(VERSIONS, "a", Mode.DYNAMIC, "j", repetition, Codec.NONE)
        effects = self.core.handle(OpenIteration(99, request, 1), self.now)
        return next(effect.answer for effect in effects if isinstance(effect, Answer))

    def restoring(self, request):
        saved = self.chance.choice(self.states)
        state = json.loads(saved)
        named = state["fingerprint"] == "a" and state["mode"] == "dynamic"
        return replace(
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
        self.tell(LineBroken(name, worker.incarnation))
        self.tell(WorkerGone(name, worker.incarnation))

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
            holdings = {}
            for task, fence in reader.fences.items():
                floor = min(self.told[task].floor, 3)
                buffered = Runs.of((floor + 1, floor + 1 + self.chance.randint(0, 2)))
                holdings[task] = Holding(fence, Taken(floor), buffered)
            leaving = not self.calm and self.chance.random() < 0.01
            reader.left = leaving
            seen = reader.id is not None
            if seen and reader.cut is None and not self.calm and self.chance.random() < 0.1:
                label = self.chance.choice(["", "x", "x"])
                reader.cut = Cut(reader.saves, label, self.chance.uniform(0.2, 5))
            beat = ReaderBeat(
                reader.iteration,
                reader.token,
                reader.id,
                reader.beats,
                holdings,
                reader.cut,
                leaving,
                reader.beats,
            )
            self.words[reader.token] = holdings
            self.cuts[reader.token] = reader.cut and (reader.cut.number, reader.cut.label)
            self.tell(beat)

    def trouble(self):
        if self.readers and self.chance.random() < 0.1:
            reader = self.chance.choice(self.readers)
            reader.asleep = self.now + self.chance.uniform(1, 9)
            if reader.iteration is not None:
                self.tell(ReaderLineBroken(reader.iteration, reader.token))
        if self.chance.random() < 0.03:
            self.restart()
        if not self.workers or self.chance.random() < 0.9:
            return
        name = self.chance.choice(list(self.workers))
        kind = self.chance.random()
        if kind < 0.3:
            self.start_worker(name)
        elif kind < 0.4:
            self.tell(Drain(7, name))
        elif kind < 0.5:
            self.kill(name)
        elif kind < 0.8:
            worker = self.workers[name]
            self.tell(LineBroken(name, worker.incarnation))
        else:
            self.now += self.chance.uniform(2, 8)
            self.tick()

    def restart(self):
        """Kill the dispatcher: what it has not told anybody is told again by itself."""
        books = Books()
        for fact in self.facts:
            books.apply(fact)
        assert books == self.core.books, "replay gives the books"
        self.words, self.cuts = {}, {}
        self.core = Core(books, self.core.desk.settings, self.now)
        for worker in self.workers.values():
            self.tell(replace(worker.beat(self.chance), versions=VERSIONS))

    def settle(self):
        """Let everything that can end come to its end."""
        self.calm = True
        for name in list(self.workers):
            self.kill(name)  # those that drain, and those that missed an order
        self.start_worker("w0")
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
        iteration = self.core.books.iterations.get(reader.iteration)
        return reader.finished or reader.left or reader.superseded or iteration is None


def run_world(seed, **settings):
    world = World(seed, **settings)
    for _ in range(250):
        world.step()
    return world


SEEDS = range(120)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_every_unit_of_every_pass_is_free_or_in_one_log(first):
    for seed in range(first, first + 20):
        world = run_world(seed)
        check_splits(world)
        world.settle()
        check_splits(world)


def check_splits(world):
    """Replay the grants: no unit twice, no pass before the one before it is handed out."""
    streams, dataset, owner = {}, {}, {}
    given, turns = defaultdict(Counter), Counter()
    ended = Counter()
    made = defaultdict(list)
    for fact in world.facts:
        match fact:
            case f.JobMade(job, parameters):
                dataset[job] = parameters
            case f.IterationOpened(iteration, job):
                streams[iteration] = world.datasets[dataset[job].dataset]
            case f.IterationRestored(iteration, job):
                streams[iteration] = world.datasets[dataset[job].dataset]
                for stream, was in enumerate(fact.sources):
                    units = streams[iteration][stream].units
                    turns[iteration, stream] = was.turn
                    for turn in range(was.turn + 1 if units else 0):
                        stop = units if turn < was.turn else was.offset
                        given[(iteration, stream), turn].update(range(stop))
                for was in fact.tasks:
                    owner[was.task] = iteration
                    made[iteration].append(was.task)
                    ended.update({(was.task, s): n for s, n in enumerate(was.ended)})
            case f.TaskMade(task, iteration):
                owner[task] = iteration
                made[iteration].append(task)
            case f.SplitsGranted(task, stream, splits):
                key = owner[task], stream
                plan = streams[owner[task]][stream]
                for split in splits:
                    if not split:
                        ended[task, stream] += 1
                        continue
                    turn = ended[task, stream]
                    assert turn < plan.passes
                    assert split.start % plan.align == 0
                    for unit in range(split.start, split.stop):
                        assert not given[key, turn][unit], f"unit {unit} of pass {turn} again"
                        given[key, turn][unit] += 1
                    if turn > turns[key]:
                        assert sum(given[key, turns[key]].values()) == plan.units
                        turns[key] = turn
                assert ended[task, stream] <= max(1, plan.passes), "a pass ends once in a log"
            case f.Finished(iteration) if (
                made[iteration] and dataset_mode(world, iteration) is Mode.DYNAMIC
            ):
                for stream, plan in enumerate(streams[iteration]):
                    for turn in range(plan.passes if plan.units else 0):
                        assert sum(given[(iteration, stream), turn].values()) == plan.units
                    for task in made[iteration]:
                        assert ended[task, stream] == (plan.passes if plan.units else 1)


def dataset_mode(world, iteration):
    opened = next(
        x
        for x in world.facts
        if isinstance(x, f.IterationOpened | f.IterationRestored) and x.iteration == iteration
    )
    made = next(x for x in world.facts if isinstance(x, f.JobMade) and x.job == opened.job)
    return made.parameters.mode


def test_replaying_all_facts_gives_equal_books():
    for seed in SEEDS:
        world = run_world(seed)
        again = Books()

        for fact in world.facts:
            again.apply(fact)

        assert again == world.core.books, f"seed {seed}"


def test_books_that_were_written_and_read_go_on_like_those_that_were_not():
    for seed in range(30):
        world = run_world(seed)
        written, half = Books(), len(world.facts) // 2

        for fact in world.facts[:half]:
            written.apply(fact)
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(written), type=Books)
        for fact in world.facts[half:]:
            again.apply(fact)

        assert again == world.core.books, f"seed {seed}"


def test_facts_are_plain_values():
    seen = set()
    for seed in range(60):
        world = run_world(seed)
        for fact in world.facts:
            data = msgspec.msgpack.encode(fact)

            assert msgspec.msgpack.decode(data, type=type(fact)) == fact
            seen.add(type(fact).__name__)
    kinds = (*get_args(f.JobFact), *get_args(f.PeerFact), *get_args(f.TaskFact))
    assert seen == {kind.__name__ for kind in kinds} - {"TaskFailed"}


def test_nothing_happens_to_an_iteration_behind_its_end():
    for seed in SEEDS:
        world = run_world(seed)
        world.settle()
        finished, owner = set(), {}
        for fact in world.facts:
            if isinstance(fact, f.TaskMade):
                owner[fact.task] = fact.iteration
            iteration = getattr(fact, "iteration", owner.get(getattr(fact, "task", None)))
            if iteration in finished:
                kinds = f.IterationForgotten | f.ReaderTold
                assert isinstance(fact, kinds), f"seed {seed}: {fact}"
            if isinstance(fact, f.Finished):
                finished.add(fact.iteration)


@pytest.mark.parametrize("gc_dynamic", [False, True])
def test_what_was_taken_of_a_named_job_is_not_given_out_again_in_silence(gc_dynamic):
    kept = 0
    for seed in range(15):
        world = run_world(seed, gc_dynamic=gc_dynamic)
        for _ in range(120):  # everybody is gone
            world.now += 0.5
            world.tick()
        books = world.core.books
        begun = {
            name: any(task.taken.floor for task in one.tasks.values())
            for name, one in books.iterations.items()
            if one.job == "j"
        }
        forgotten = [
            fact.iteration
            for fact in world.facts
            if isinstance(fact, f.IterationForgotten) and fact.unfinished
        ]
        kept += len(forgotten) if gc_dynamic else sum(begun.values())
        assert not (forgotten and not gc_dynamic) and not (any(begun.values()) and gc_dynamic)
        assert not any(worker.tasks for worker in books.workers.values())
        before = dict(books.jobs["j"].open) if "j" in books.jobs else {}
        refused = set(books.jobs["j"].unfinished) if "j" in books.jobs else set()
        for repetition in (1, 2):
            answered = world.asked_again(repetition)
            if repetition in refused:
                assert answered.kind == "JobForgotten"
            elif repetition in before:
                assert answered.iteration == before[repetition]
            else:
                assert answered.iteration not in begun
    assert kept > 2


def test_ids_are_never_used_twice():
    for seed in range(40):
        world = run_world(seed)
        ids = [
            fact.task
            if isinstance(fact, f.TaskMade | f.TaskAt)
            else fact.iteration
            if isinstance(fact, f.IterationOpened | f.IterationRestored)
            else fact.reader
            for whole in world.facts
            for fact in (whole, *getattr(whole, "tasks", ()))
            if isinstance(
                fact,
                f.TaskMade | f.TaskAt | f.IterationOpened | f.IterationRestored | f.ReaderJoined,
            )
        ]

        assert len(ids) == len(set(ids))
        assert all(number > seed for number in ids)


def test_what_is_volatile_does_not_pile_up():
    for seed in range(30):
        world = run_world(seed, gc_dynamic=True)
        world.settle()
        for reader in world.readers:
            if not reader.finished and not reader.left and reader.id is not None:
                reader.beats += 1
                reader.left = True
                world.tell(
                    ReaderBeat(
                        reader.iteration, reader.token, reader.id, reader.beats, leaving=True
                    )
                )
        world.now += 1000
        for _ in range(400):
            world.now += 0.5
            world.tick()

        heard, books = world.core.desk.heard, world.core.books
        assert not books.iterations
        assert not books.owners
        assert not (heard.readers or heard.progress or heard.learnt or heard.paces)
        assert not (heard.idle_since or heard.lines or heard.saves or heard.workers)
        assert not world.core.desk.waiting
        assert not world.core.desk.news.pictures
        assert not world.core.desk.news.dated

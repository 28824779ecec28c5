"""A worker's slots are shared by the jobs there; what is beyond a share rests, and not for ever."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import (
    AttemptProgress,
    ReaderHeartbeat,
    SplitRequest,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import NOTHING_ACKED
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher.core import slots
from penstock_dispatcher.core.events import (
    AppendFact,
    OpenIteration,
    RegisterDataset,
    SendCommand,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import SplitsGranted
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
UNITS = 100_000


class World:
    """A dispatcher's core, and workers and readers that say what they should."""

    def __init__(self):
        self.now = 1000.0
        self.core = DispatcherCore(DispatcherState(), CoreSettings(), self.now, 1e9)
        self.handle(StartHistory(0))
        spec = (SplitProviderSpec((".0",), UNITS, passes=-1, repeats=(("", -1),)),)
        self.handle(RegisterDataset(1, VERSIONS, "d", spec, ""))
        self.incarnations, self.jobs, self.seq = {}, {}, 0
        self.granted = []

    @property
    def state(self):
        return self.core.state

    def handle(self, event):
        effects = self.core.handle(event, self.now)
        facts = [effect.fact for effect in effects if isinstance(effect, AppendFact)]
        self.granted = [fact for fact in facts if isinstance(fact, SplitsGranted)]
        self.core.take_views(self.now)
        return effects

    def come(self, worker, count):
        self.incarnations[worker] = self.incarnations.get(worker, 0) + 1
        self.beat(worker, WorkerProfile(slots=count))

    def beat(self, worker, profile=None):
        heartbeat = (worker, self.incarnations[worker], self.state.revision)
        self.handle(WorkerHeartbeat(*heartbeat, profile=profile))

    def die(self, worker):
        self.handle(WorkerDisconnected(worker, self.incarnations[worker]))
        self.handle(WorkerDead(worker, self.incarnations[worker]))

    def read(self, job, mode=Mode.DYNAMIC):
        name = f"{job} of {self.seq}"
        request = opening(VERSIONS, "d", mode, name, 0, Codec.NONE)
        before = set(self.state.iterations)
        self.handle(OpenIteration(2, request, 7))
        (self.jobs[job],) = set(self.state.iterations) - before
        self.tell(job)

    def tell(self, job, leaving=False):
        self.seq += 1
        name = self.jobs[job]
        (reader,) = self.state.iterations[name].readers or (None,)
        tasks = self.state.iterations[name].tasks.items()
        reports = {
            n: TaskReport(task.attempt + (task.worker is None), task.acked) for n, task in tasks
        }
        beat = ReaderHeartbeat(name, f"s{name}", reader, self.seq, reports, leaving=leaving)
        self.handle(beat)

    def leave(self, job):
        self.tell(job, leaving=True)
        del self.jobs[job]

    def tasks(self, job, worker=None):
        tasks = self.state.iterations[self.jobs[job]].tasks
        return [n for n, task in tasks.items() if worker is None or task.worker == worker]

    def made(self, job, worker):
        return slots.at_work(self.state, self.core.ctx.soft_state, worker, self.jobs[job])

    def ask(self, name):
        """Have the worker of a task ask for the next split of it; return whether it gets one."""
        task = self.state.task(name)
        place = (task.worker, self.incarnations[task.worker], name, task.attempt)
        effects = self.handle(SplitRequest(*place, 0, task.logs[0].stop))
        return any(isinstance(effect, SendCommand) for effect in effects)

    def ask_all(self):
        for job in self.jobs:
            for name in self.tasks(job):
                if self.state.task(name).worker is not None:
                    self.ask(name)

    def wait(self, seconds):
        for _ in range(int(seconds)):
            self.now += 1.0
            for worker in self.state.workers.copy():
                self.beat(worker)
            for job in self.jobs:
                self.tell(job)
            self.handle(Tick())
            self.ask_all()


def test_a_job_has_a_task_for_each_slot():
    world = World()
    world.come("a", 3)
    world.come("b", 1)
    world.read("j")

    assert (len(world.tasks("j", "a")), len(world.tasks("j", "b"))) == (3, 1)


def test_a_worker_that_says_nothing_of_slots_has_one():
    world = World()
    world.come("a", 0)
    world.read("j")

    assert len(world.tasks("j")) == 1


def test_a_worker_with_more_slots_gets_more_when_it_comes_later():
    world = World()
    world.come("a", 1)
    world.read("j")
    world.come("b", 4)

    assert (len(world.tasks("j", "a")), len(world.tasks("j", "b"))) == (1, 4)


def test_with_other_policies_a_worker_has_one_task():
    world = World()
    world.come("a", 4)
    world.read("j", Mode.OFF)

    assert len(world.tasks("j")) == 1


def test_two_jobs_have_half_of_the_slots_each_and_one_alone_has_all():
    world = World()
    world.come("a", 4)
    world.read("j")
    world.read("k")
    world.wait(3)
    assert (len(world.made("j", "a")), len(world.made("k", "a"))) == (2, 2)

    world.leave("j")
    world.wait(3)
    assert len(world.made("k", "a")) == 4


def test_each_job_has_a_task_however_many_there_are():
    world = World()
    world.come("a", 2)
    for job in "jklm":
        world.read(job)
    world.wait(3)

    assert [len(world.made(job, "a")) for job in "jklm"] == [1, 1, 1, 1]


def test_what_rests_takes_turns_with_the_others():
    world = World()
    world.come("a", 1)
    world.come("b", 1)
    world.read("j")
    world.die("b")
    seen = set()
    for _ in range(3 * int(slots.TURN)):
        world.wait(1)
        seen.update(world.made("j", "a"))
        assert len(world.made("j", "a")) <= 1 or world.now < 1003

    assert seen == set(world.tasks("j"))


def test_status_says_how_many_slots_are_used():
    world = World()
    world.come("a", 3)
    world.read("j")
    world.read("o", Mode.OFF)

    assert slots.slots_used(world.state, world.core.ctx.soft_state, "a") == 3

    (alone,) = world.tasks("o")
    spread = AttemptProgress(1, 10, NOTHING_ACKED, processes=2)
    world.handle(
        WorkerHeartbeat("a", world.incarnations["a"], world.state.revision, {alone: spread})
    )
    assert slots.slots_used(world.state, world.core.ctx.soft_state, "a") == 5


def test_what_a_task_of_another_kind_is_spread_over_is_not_shared_up_to_an_equal_part():
    world = World()
    world.come("a", 6)
    world.read("j")
    world.read("o", Mode.OFF)
    j, (alone,) = world.jobs["j"], world.tasks("o")

    def share(processes):
        spread = AttemptProgress(1, 10, NOTHING_ACKED, processes=processes)
        heartbeat = ("a", world.incarnations["a"], world.state.revision, {alone: spread})
        world.handle(WorkerHeartbeat(*heartbeat))
        return slots.share(world.core.ctx, "a", j, world.state.iterations[j])

    assert share(0) == share(1) == 5
    assert share(2) == 4
    assert share(6) == 3

    world.leave("o")
    assert slots.share(world.core.ctx, "a", j, world.state.iterations[j]) == 6


EVENTS = st.one_of(
    st.tuples(st.just("come"), st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.just("die"), st.sampled_from("abc")),
    st.tuples(st.just("read"), st.sampled_from("jkl")),
    st.tuples(st.just("leave"), st.sampled_from("jkl")),
    st.tuples(st.just("wait"), st.integers(1, 15)),
)


@given(st.lists(EVENTS, max_size=20))
def test_no_job_has_more_than_its_share_for_long_and_none_has_nothing(events):
    world = World()
    world.come("a", 2)
    for event in events:
        match event:
            case "come", worker, count if worker not in world.state.workers:
                world.come(worker, count)
            case "die", worker if worker in world.state.workers:
                world.die(worker)
            case "read", job if job not in world.jobs:
                world.read(job)
            case "leave", job if job in world.jobs:
                world.leave(job)
            case "wait", seconds:
                world.wait(seconds)
    world.wait(2 * slots.TURN)

    used = defaultdict(int)
    for job, name in world.jobs.items():
        iteration = world.state.iterations[name]
        for worker, known in world.state.workers.items():
            made = len(world.made(job, worker))
            assert made <= slots.share(world.core.ctx, worker, name, iteration)
            assert (made >= 1) == bool(world.tasks(job, worker))
            used[worker] += made
        placed = [task.worker for task in iteration.tasks.values()]
        assert None not in placed or not world.state.workers
    for worker, known in world.state.workers.items():
        assert used[worker] <= max(known.slots, len(world.jobs))
        if world.jobs:
            assert used[worker] >= min(known.slots, len(world.jobs))

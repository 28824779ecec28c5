"""Workers that readers may not read: who gets tasks, what moves, and what is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DatasetError
from penstock.protocol.control import TaskReport
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Failure, Mode
from penstock_dispatcher.core.events import (
    Tick,
)
from tests.dispatcher.core.driver import DrivenCore

COLOCATED = ("colocated",)


class Life(DrivenCore):
    """A core with one dataset, and readers that say which workers are in their processes."""

    def __init__(self, facts=()):
        super().__init__(SplitProviderSpec((".0",), 1000), facts=facts)

    def worker(self, name, tags=(), incarnation=1):
        self.comes(name, incarnation, profile=WorkerProfile("h", ("grpc", "local"), tags))

    def ask(self, target, mode=Mode.DYNAMIC, **more):
        return self.opens(mode, **{"target_workers": target, **more})

    def open(self, target, mode=Mode.DYNAMIC):
        self.iteration = self.ask(target, mode).iteration

    def beat(self, session, reader=None, *inside, **more):
        more.setdefault("in_process", dict.fromkeys(inside, 1))
        return super().beat(self.iteration, session, reader, **more)

    def tick(self, seconds=0.25):
        self.now += seconds
        self.tell(Tick())

    @property
    def runs(self):
        tasks = self.core.state.iterations[self.iteration].tasks
        return sorted(task.worker for task in tasks.values() if task.worker)

    @property
    def waits(self):
        return self.stats.waiting_for


@pytest.mark.parametrize(
    ("target", "runs"), [("ANY", ["far", "mine", "tagged"]), ("AUTO", ["far", "mine"])]
)
def test_workers_that_nobody_may_read_get_no_tasks(target, runs):
    life = Life()
    for name, tags in [("far", ()), ("mine", COLOCATED), ("tagged", COLOCATED)]:
        life.worker(name, tags)
    life.open(target)

    life.beat("r", None, "mine")

    assert life.runs == runs
    assert life.waits == ""


@pytest.mark.parametrize("mode", [Mode.DYNAMIC, Mode.OFF])
def test_readers_of_local_workers_have_a_task_each_and_none_is_elsewhere(mode):
    life = Life()
    for name in ("far", "one", "two"):
        life.worker(name)
    life.open("LOCAL", mode)

    life.beat("r1", None, "one")
    assert life.runs == ["one"]
    life.beat("r2", None, "two")

    assert life.runs == ["one", "two"]


def test_a_worker_in_another_life_is_another_worker():
    life = Life()
    life.worker("mine", incarnation=2)
    life.open("LOCAL")

    life.beat("r", None, "mine")

    assert life.runs == []
    assert life.waits.startswith("no reader may read worker mine: target_workers='LOCAL' reads ")


def test_where_no_worker_may_be_read_all_who_wait_are_told_why():
    life = Life()
    for number in range(6):
        life.worker(f"w{number}", COLOCATED)
    life.open("AUTO")
    reader = life.beat("r").reader
    life.tick()

    view = life.beat("r", reader)

    assert view.waiting_for == life.waits
    assert life.waits.count("it is tagged COLOCATED, and target_workers='AUTO' reads it") == 4
    assert life.waits.endswith("and of 2 more workers")


def test_tasks_of_a_worker_whose_reader_left_go_on_where_they_are_read():
    life = Life()
    life.worker("one")
    life.worker("two")
    life.open("LOCAL")
    first, second = life.beat("r1", None, "one").reader, life.beat("r2", None, "two").reader
    assert life.runs == ["one", "two"]

    life.beat("r1", first, "one", leaving=True)
    tasks = life.core.state.iterations[life.iteration].tasks
    (moved,) = (name for name, task in tasks.items() if task.worker is None)
    life.beat("r2", second, "two", reports={moved: TaskReport(2, AckedSet(0))})

    assert life.runs == ["two", "two"]
    assert life.waits == ""


def test_tasks_stay_where_they_are_and_that_is_said_if_nobody_may_read_another_worker():
    life = Life()
    life.worker("mine")
    life.worker("far")
    life.open("LOCAL")
    reader = life.beat("r", None, "mine").reader

    life.beat("r", reader)

    assert life.runs == ["mine"]
    assert "no reader may read worker mine" in life.waits


def test_a_restart_forgets_no_tags_and_moves_nothing_before_readers_are_heard():
    life = Life()
    life.worker("mine", COLOCATED)
    life.worker("far")
    life.open("AUTO")
    reader = life.beat("r", None, "mine").reader
    again = Life(life.facts)
    again.iteration = life.iteration
    for name, tags in [("mine", COLOCATED), ("far", ())]:
        again.worker(name, tags)
    again.tick()
    assert again.runs == ["far", "mine"]

    again.beat("r", reader, "mine")

    assert again.runs == ["far", "mine"]
    stats = again.core.stats(again.now)
    assert {worker.address: worker.tags for worker in stats.workers} == {
        "mine": COLOCATED,
        "far": (),
    }
    assert {worker.transports for worker in stats.workers} == {("grpc", "local")}


def test_of_a_cached_job_a_worker_must_be_read_by_each_trainer():
    life = Life()
    for name in ("one", "two", "both"):
        life.worker(name)
    life.iteration = life.ask("LOCAL", trainer="a").iteration
    life.beat("r1", None, "one", "both", trainer="a")
    assert life.runs == ["both", "one"]

    life.beat("r2", None, "two", "both", trainer="b")
    life.beat("r3", None, "both", trainer="b")

    assert life.runs == ["both"]
    assert life.waits == ""


def test_trainers_that_have_no_worker_in_common_are_told():
    life = Life()
    for name in ("one", "two"):
        life.worker(name)
    life.iteration = life.ask("LOCAL", trainer="a").iteration
    life.beat("r1", None, "one", trainer="a")

    life.beat("r2", None, "two", trainer="b")

    assert life.runs == ["one"]
    assert life.waits.startswith("not every trainer may read worker one: ")


NAMES = st.sampled_from(["u", "v", "w"])


@given(
    target=st.sampled_from(["AUTO", "LOCAL"]),
    inside=st.lists(st.sets(NAMES), min_size=1, max_size=4),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("comes"), NAMES, st.sampled_from([(), COLOCATED])),
            st.tuples(st.just("reads"), st.integers(0, 3), st.none()),
            st.tuples(st.just("leaves"), st.integers(0, 3), st.none()),
        ),
        max_size=20,
    ),
)
def test_what_runs_is_read_or_nobody_reads_anything_and_that_is_said(target, inside, steps):
    life, workers, readers = Life(), {}, {}
    life.open(target)

    def report():
        tasks = life.core.state.iterations[life.iteration].tasks.items()
        reports = {n: TaskReport(t.attempt + (t.worker is None), AckedSet(0)) for n, t in tasks}
        for number, reader in readers.items():
            at = [name for name in inside[number] if name in workers]
            beat = life.beat(
                f"r{number}",
                reader,
                reports=reports,
                in_process={name: workers[name][0] for name in at},
            )
            readers[number] = beat.reader

    crowd = [("comes", name, ()) for name in "uvw"] + [
        ("reads", number, None) for number in range(4)
    ]
    for step, who, tags in crowd + steps:
        if step == "comes":
            workers[who] = (workers.get(who, (0,))[0] + 1, tags)
            life.worker(who, tags, workers[who][0])
        elif step == "reads" and who < len(inside):
            readers.setdefault(who, None)
        elif step == "leaves" and readers.get(who) is not None:
            life.beat(f"r{who}", readers.pop(who), leaving=True)
        report()
    for _ in range(6):
        report()

    open_to = {
        name
        for name, (_, tags) in workers.items()
        if (target == "AUTO" and not tags) or any(name in inside[number] for number in readers)
    }
    if readers and open_to:
        assert life.runs
        assert set(life.runs) <= open_to
        assert life.waits == ""
    elif readers and workers:
        assert "no reader may read worker" in life.waits


def test_readers_of_one_job_agree_on_whom_they_read():
    life = Life()
    life.open("LOCAL")

    failure = life.ask("ANY")

    assert isinstance(failure, Failure)
    assert failure.kind == "JobMismatch"
    assert "target_workers is 'LOCAL', not 'ANY'" in str(failure.error())


def test_readers_in_a_workers_process_are_no_consumers():
    failure = Life().ask("LOCAL", num_consumers=2).error()

    assert isinstance(failure, DatasetError)
    assert "'LOCAL' and num_consumers do not go together" in str(failure)


def test_how_readers_read_is_in_the_counters():
    life = Life()
    life.worker("w")
    life.open("ANY")
    life.beat("r", None, transports={"local": 1, "grpc": 3})

    (stats,) = life.core.stats(life.now).iterations

    assert stats.target_workers == "ANY"
    assert stats.readers[0].transports == {"local": 1, "grpc": 3}

"""Who gets which place in the list of workers, and what becomes of static tasks."""

from dataclasses import replace

import pytest

from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, TaskReport, WorkerHeartbeat
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher.core import placement, worker_entries
from penstock_dispatcher.core.events import (
    DrainWorker,
    OpenIteration,
    RegisterDataset,
    SendCommand,
    SendView,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")


class World:
    """A dispatcher's core with a list of workers."""

    def __init__(self, *entries, **settings):
        self.now, self.incarnation, self.python = 1000.0, {}, "3.11.7"
        self.settings = CoreSettings(worker_addresses=entries, **settings)
        self.core = DispatcherCore(DispatcherState(), self.settings, self.now)
        self.facts = []
        self.handle(StartHistory(0))

    def handle(self, event):
        return self.core.handle(event, self.now)

    def come(self, worker):
        """Have a new process come at *worker*; return why it is refused, if it is."""
        self.incarnation[worker] = self.incarnation.get(worker, 0) + 1
        return self.beat(worker)

    def beat(self, worker):
        versions = replace(VERSIONS, python=self.python)
        beat = WorkerHeartbeat(worker, self.incarnation[worker], -1, versions=versions)
        effects = self.handle(beat)
        refused = [e.command for e in effects if isinstance(e, SendCommand)]
        return str(refused[0].failure.error()) if refused else ""

    def die(self, worker):
        self.cut(worker)
        self.handle(WorkerDead(worker, self.incarnation[worker]))

    def cut(self, worker):
        self.handle(WorkerDisconnected(worker, self.incarnation[worker]))

    def wait(self, seconds, *workers):
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            for worker in workers:
                self.beat(worker)
            self.handle(Tick())

    def read(self, mode=Mode.DATA, python=""):
        self.handle(RegisterDataset(1, VERSIONS, "d", (), "", "", "", python))
        self.handle(OpenIteration(2, opening(VERSIONS, "d", mode, "j", 0, Codec.NONE), 7))
        (iteration,) = self.core.state.iterations
        self.handle(ReaderHeartbeat(iteration, "r", None, 1))

    @property
    def waits(self):
        """What readers are told that they wait for."""
        return [
            effect.view.waiting_for
            for effect in self.core.take_views(self.now)
            if isinstance(effect, SendView)
        ]

    @property
    def entries(self):
        return {worker: known.entry for worker, known in self.core.state.workers.items()}

    @property
    def places(self):
        """Where each task runs, by index."""
        (iteration,) = self.core.state.iterations.values()
        return [task.worker for task in iteration.tasks.values()]


def test_without_a_list_workers_have_no_entries():
    world = World()

    assert world.come("any:1") == ""
    assert world.entries == {"any:1": None}


@pytest.mark.parametrize("entry", ["h", "h:*", "h:%port%", "h:%port_worker%"])
def test_an_entry_without_port_is_for_one_worker_of_the_host(entry):
    world = World("a:1", entry)

    assert world.come("h:7") == ""
    assert "one too many" in world.come("h:8")
    assert world.entries == {"h:7": 1}


def test_an_ipv6_host_needs_brackets_only():
    world = World("[::1]", "[::1]:7")

    assert [world.come("[::1]:7"), world.come("[::1]:9")] == ["", ""]
    assert world.entries == {"[::1]:7": 1, "[::1]:9": 0}


def test_who_is_listed_by_its_port_takes_no_other_place():
    world = World("h", "h:7")

    assert [world.come("h:7"), world.come("h:9")] == ["", ""]
    assert world.entries == {"h:7": 1, "h:9": 0}


def test_who_is_not_listed_is_refused_with_the_list_and_the_way_out():
    world = World("a:1", "b")

    assert world.come("c:1") == (
        "worker c:1 is not one of worker_addresses: a:1, b; add it to that list at the "
        "dispatcher, or start the worker with an address that is in it (worker_address)"
    )
    assert "not one of worker_addresses" in world.come("a:2")
    assert world.entries == {}


def test_who_is_one_too_many_is_told_who_is_there():
    world = World("h", "h")
    world.come("h:1")
    world.come("h:2")

    assert "has 2 for its host, and other workers are there: h:1, h:2" in world.come("h:3")


def test_a_place_is_free_when_its_worker_is_gone():
    world = World("h")
    world.come("h:1")
    world.die("h:1")

    assert world.come("h:2") == ""
    assert world.entries == {"h:2": 0}
    assert "one too many" in world.come("h:1")


def test_who_comes_back_gets_the_place_that_it_had():
    world = World("h", "h")
    world.come("h:1")
    world.come("h:2")
    world.die("h:1")
    world.die("h:2")

    world.come("h:2")

    assert world.entries == {"h:2": 1}


def test_one_without_stream_gives_way_once_it_is_silent():
    world = World("h")
    world.come("h:1")
    world.cut("h:1")

    assert "one too many" in world.come("h:2")
    world.wait(2.25)
    assert world.come("h:2") == ""
    assert world.entries == {"h:2": 0}


def test_a_new_process_at_the_same_address_keeps_the_place():
    world = World("a", "h")
    world.come("h:1")
    world.come("h:1")

    assert world.entries == {"h:1": 1}


def test_places_are_the_same_after_a_restart_with_another_list():
    world = World("a:1", "b:1")
    world.come("b:1")
    state = world.core.state
    world.settings = replace(world.settings, worker_addresses=("b:1", "a:1"))
    world.core = DispatcherCore(state, world.settings, world.now)

    world.beat("b:1")

    assert world.entries == {"b:1": 0}


def test_behind_a_restart_with_another_list_nobody_that_is_listed_is_refused():
    world = World("a:1", "b:1")
    world.come("a:1")
    world.come("b:1")
    state = world.core.state
    world.settings = replace(world.settings, worker_addresses=("new:1", "a:1", "b:1"))
    world.core = DispatcherCore(state, world.settings, world.now)

    assert [world.beat("a:1"), world.beat("b:1")] == ["", ""]
    assert world.entries == {"a:1": 1, "b:1": 2}


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode.is_static])
def test_each_place_has_a_task_and_keeps_it(mode):
    world = World("a:1", "b:1", "c:1")
    world.come("c:1")
    world.come("a:1")
    world.read(mode)

    assert world.places == ["a:1", None, "c:1"]
    world.wait(20, "a:1", "c:1")
    assert world.places == ["a:1", None, "c:1"]
    world.come("b:1")
    assert world.places == ["a:1", "b:1", "c:1"]


def test_a_list_of_names_without_ports_follows_the_workers():
    world = World("h", "h")
    world.come("h:1")
    world.come("h:2")
    world.read()
    world.die("h:1")
    world.come("h:3")
    (task, _) = world.core.state.iterations[1].tasks.values()
    reader = ReaderHeartbeat(1, "r", 2, 2)

    assert world.places == [None, "h:2"]  # the reader has not fenced the attempt yet
    world.handle(reader)
    assert worker_entries.may_run(world.core.ctx, task, ["h:2", "h:3"], world.now) == ["h:3"]


def test_tasks_of_places_that_stay_vacant_go_on_elsewhere_if_settings_say_so():
    world = World("a:1", "b:1", reassign_static_tasks=True)
    world.come("a:1")
    world.read()

    world.wait(4, "a:1")
    assert world.places == ["a:1", None]
    world.wait(2, "a:1")
    assert world.places == ["a:1", "a:1"]


def test_readers_are_told_of_a_list_that_got_shorter():
    world = World("a:1", "b:1")
    world.come("a:1")
    world.read()
    world.core.ctx.settings = replace(world.settings, worker_addresses=("a:1",))
    (iteration,) = world.core.state.iterations.values()

    (said,) = worker_entries.vacancies(world.core.ctx, iteration, world.now)

    assert said.startswith("part 1 of 2, which no worker has: worker_addresses had 2 entries")


def test_any_ports_keep_their_places_after_a_restart():
    world = World("h", "h")
    world.come("h:1")
    world.come("h:2")
    world.read()
    state = world.core.state
    world.core = DispatcherCore(state, world.settings, world.now)

    assert [world.beat("h:2"), world.beat("h:1")] == ["", ""]
    assert world.entries == {"h:1": 0, "h:2": 1}
    assert world.places == ["h:1", "h:2"]


def test_readers_are_told_why_the_only_worker_of_a_part_does_not_run_it():
    world = World("a:1", "b:1")
    world.come("a:1")
    world.come("b:1")
    world.handle(DrainWorker(7, "b:1"))
    world.read()

    (said,) = world.waits

    assert said == (
        "worker b:1: it drains, and gets nothing new; it alone has part 1 of 2 (worker_addresses)"
    )


def test_a_worker_of_another_python_leaves_its_part_waiting():
    world = World("a:1", "b:1")
    world.python = "3.12.1"
    world.come("b:1")
    world.python = "3.11.7"
    world.come("a:1")
    world.read(python="3.11")

    (said,) = world.waits

    assert said.startswith("worker b:1: it has Python 3.12, and the pipeline was made by 3.11; it")


def test_a_worker_without_room_fails_its_own_part_only_when_it_refused_often():
    world = World("a:1", "b:1")
    world.come("a:1")
    world.come("b:1")
    world.read()
    name, task = list(world.core.state.iterations[1].tasks.items())[1]

    for beat in range(placement.ROUNDS):
        progress = AttemptProgress(task.attempt, 0, AckedSet(), lacking="no memory")
        ended = frozenset({(name, task.attempt)})
        world.handle(WorkerHeartbeat("b:1", 1, -1, {name: progress}, ended))
        assert world.places == ["a:1", None] or task.failure is not None
        report = {name: TaskReport(task.attempt + 1, AckedSet())}
        world.handle(ReaderHeartbeat(1, "r", 2, beat + 2, report))

    assert task.failure.kind == "Overloaded"


def test_of_many_vacant_places_some_are_named():
    world = World(*(f"h{i}:1" for i in range(9)))
    world.read()
    (iteration,) = world.core.state.iterations.values()

    said = list(worker_entries.vacancies(world.core.ctx, iteration, world.now))

    assert len(said) == 5
    assert said[0].startswith(
        "worker h0:1 of worker_addresses, which has part 0 of 9 and is absent"
    )
    assert said[-1] == "5 more of worker_addresses"

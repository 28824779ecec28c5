"""The tasks of an ordered job: one a split, in the order of the splits, few ahead of readers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import UnreachableWorker
from penstock.protocol.types import Codec, Failure, Mode
from penstock_dispatcher.core.events import (
    OpenIteration,
    ReplyToCall,
)
from penstock_dispatcher.core.facts import TaskDone
from penstock_dispatcher.core.ordered_tasks import AHEAD as AHEAD_OF_EACH
from penstock_dispatcher.core.ordered_tasks import OPEN, OPEN_OF_MIXTURE
from penstock_dispatcher.core.slots import ORDERED as AT_WORK
from tests.dispatcher.core.driver import VERSIONS
from tests.dispatcher.core.mixed import Mixed, outline
from tests.dispatcher.core.one_order import World
from tests.openings import opening

AHEAD = AHEAD_OF_EACH * AT_WORK


def ahead(world):
    return sorted(world.tasks)


def test_each_task_has_one_split_and_they_are_in_order():
    world = World(10_000, grid=100)
    for _ in range(20):
        world.finishes(min(world.tasks))

    starts = [start for start, _ in world.splits]
    assert starts == [0, *(stop for _, stop in world.splits)][:-1]
    assert all(task.ended == (1,) for task in world.tasks.values())


def test_a_worker_makes_two_tasks_at_a_time():
    world = World(10_000, workers=3)

    assert len(world.tasks) == AT_WORK * 3
    workers = [task.worker for task in world.tasks.values()]
    assert {workers.count(f"w{i}") for i in range(3)} == {AT_WORK}


def test_what_is_made_and_not_read_bounds_how_far_workers_go_ahead():
    world = World(10_000, workers=1, grid=100)
    for _ in range(10):
        for name in ahead(world):
            world.makes(name)

    assert len(world.tasks) == AHEAD


def test_what_operators_behind_the_reader_hold_does_not_stop_workers():
    world = World(10_000, workers=1, grid=100)
    for _ in range(10):
        for name in ahead(world):
            world.sends(name)

    assert len(world.tasks) > AHEAD


def test_but_there_is_a_bound_to_that_too(monkeypatch):
    monkeypatch.setattr("penstock_dispatcher.core.ordered_tasks.OPEN", 12)
    world = World(10_000, workers=1, grid=100)
    for _ in range(20):
        for name in ahead(world):
            world.sends(name)

    assert OPEN > 12
    assert len(world.tasks) == 12


def test_of_a_mixture_readers_are_behind_by_few_tasks_so_that_new_weights_hold_soon():
    world = Mixed(outline(length=10_000))
    for _ in range(20):
        for name in ahead(world):
            world.sends(name)

    assert len(world.tasks) == OPEN_OF_MIXTURE * AT_WORK
    assert world.sets(web=1) == len(world.tasks) * 10
    world.finishes_first()
    assert len(world.tasks) == OPEN_OF_MIXTURE * AT_WORK


def test_the_next_task_goes_where_fewest_are_being_made():
    world = World(10_000)
    first, *_ = ahead(world)
    busy = world.tasks[first].worker
    world.makes(first)

    newest = max(world.tasks)
    assert world.tasks[newest].worker == busy  # it has one to make, the other one two


def test_a_task_whose_worker_dies_goes_on_elsewhere_and_none_is_made_in_its_place():
    world = World(10_000)
    before = ahead(world)
    world.dies("w0")
    world.reads()

    assert ahead(world) == before
    assert {task.worker for task in world.tasks.values()} <= {"w1", None}
    for name in before:  # each goes on when there is room, the first ones first
        assert world.tasks[name].worker == "w1"
        world.finishes(name)


@pytest.mark.slow
def test_the_tasks_of_a_worker_that_dies_are_not_all_made_at_once_on_another():
    world = World(100_000, grid=10)
    for _ in range(100):  # all is with readers, and operators keep it
        for name in world.unread:
            if world.tasks[name].worker is not None:
                world.sends(name)
    assert len(world.tasks) > 50
    world.dies("w0")
    world.reads()

    progress = world.core.ctx.soft_state.progress
    at_work = [n for n, task in world.tasks.items() if task.worker and n not in progress]
    assert 1 <= len(at_work) <= AT_WORK + 1


def test_readers_are_told_whether_tasks_follow():
    world = World(100, grid=100)
    assert not world.view.more_tasks

    world = World(10_000, grid=100)
    assert world.view.more_tasks


def test_a_task_without_a_worker_is_shown_so_that_readers_wait_for_it():
    world = World(10_000, workers=1)
    world.dies("w0")

    assert sorted(world.view.tasks) == ahead(world)
    assert {seen.worker for seen in world.view.tasks.values()} == {None}


def test_tasks_that_are_done_are_gone_and_in_the_account():
    world = World(100)
    while world.tasks:
        world.finishes(min(world.tasks))

    assert world.iteration.finished
    assert (world.account.elements, world.account.acked, world.account.units) == (100, 100, 100)
    assert world.account.splits == len(world.splits)
    assert not world.core.state.owners


def test_an_empty_pass_is_over_as_soon_as_a_worker_says_so():
    world = World(0)
    (name,) = world.tasks

    assert not world.splits
    world.finishes(name)
    assert world.iteration.finished


def test_splits_have_the_size_that_the_pipeline_gives_them():
    world = World(100, grid=7)
    while world.tasks:
        world.finishes(min(world.tasks))

    assert [stop - start for start, stop in world.splits] == [7] * 14 + [2]


def test_splits_begin_with_whole_batches():
    world = World(1000, align=32)
    while world.tasks:
        world.finishes(min(world.tasks))

    assert {start % 32 for start, _ in world.splits} == {0}
    assert world.splits[-1][1] == 1000


def test_splits_take_about_as_long_whatever_an_element_costs():
    world = World(10**7, workers=1)
    for _ in range(30):
        world.now += 1e-5 * world.size(min(world.tasks))
        world.finishes(min(world.tasks))

    start, stop = world.splits[-1]
    assert 0.2 < 1e-5 * (stop - start) < 1.0  # two at a time, each half as fast


def test_what_is_known_of_tasks_is_forgotten_with_them():
    world = World(10**6, workers=1, grid=100)
    for _ in range(200):
        world.finishes(min(world.tasks))

    soft = world.core.ctx.soft_state
    assert soft.progress.keys() <= world.tasks.keys()
    assert soft.reported_acks.keys() <= world.tasks.keys()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"mode": Mode.OFF}, "processing mode 'off' do not go together"),
        ({"trainer": "t"}, "cross_trainer_cache do not go together"),
    ],
    ids=str,
)
def test_what_has_no_one_order_is_refused(asked, words):
    mode = asked.pop("mode", Mode.DYNAMIC)
    world = World(10)
    request = opening(VERSIONS, "d", mode, "other", 1, Codec.NONE, ordered=True, **asked)
    effects = world.tell(OpenIteration(2, request, 5))
    (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]

    assert isinstance(answer, Failure)
    assert words in str(answer.error())


def test_a_pipeline_that_keeps_something_across_splits_is_refused():
    world = World(10, unordered="ordered=True: shuffle keeps something across splits")

    assert "shuffle keeps" in str(world.answer.error())


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["makes", "sends", "finishes", "dies", "restarts"]), st.integers(0, 9)
    ),
    max_size=40,
)


@pytest.mark.slow
@given(ACTS, st.integers(0, 400), st.integers(1, 3), st.sampled_from([0, 1, 10]))
def test_whatever_happens_tasks_come_in_order_and_all_is_accounted_for(acts, units, count, grid):
    world, most = World(units, count, grid=grid), 0
    for act, which in acts:
        if act == "dies":
            worker = f"w{which % count}"
            world.dies(worker)
            world.reads()
            world.comes(worker)
            world.reads()
        elif act == "restarts":
            world.restart()
            for i in range(count):
                world.comes(f"w{i}")
            world.reads()
        elif running := [n for n, t in world.tasks.items() if t.worker is not None]:
            getattr(world, act)(sorted(running)[which % len(running)])
        if act in ("dies", "restarts"):
            most = len(world.tasks)  # what was made must be made again, or told again
        indexes = [task.index for _, task in sorted(world.tasks.items())]
        assert indexes == sorted(set(indexes))
        assert len(world.unread) <= max(AHEAD * count, most)
    world.reads()
    while world.tasks:
        world.finishes(min(world.tasks))

    assert world.iteration.finished
    assert world.account.acked == world.account.elements == units
    assert not world.account.faults()
    starts = [start for start, _ in world.splits]
    assert starts == [0, *(stop for _, stop in world.splits)][: len(starts)]


def test_a_task_whose_worker_hears_no_ack_is_done_by_what_readers_say():
    world = World(100, grid=100)
    (name,) = world.tasks
    world.sends(name)
    assert not any(isinstance(fact, TaskDone) for fact in world.facts)

    world.reads(acked={name: 100})

    (done,) = [fact for fact in world.facts if isinstance(fact, TaskDone)]
    assert (done.task, done.acked.floor, done.totals.head) == (name, 100, 100)
    assert world.iteration.finished


def test_a_worker_that_one_of_two_readers_does_not_reach_gets_no_task():
    world = World(10_000, grid=100)
    world.reads(session="other")
    (lost, *_) = sorted({task.worker for task in world.tasks.values()})

    world.now += 60
    world.reads(unreachable={lost: UnreachableWorker(1, 60.0)})
    for session in ("r", "other"):
        world.reads(session=session, unreachable={lost: UnreachableWorker(1, 60.0)})

    assert lost not in {task.worker for task in world.tasks.values()}
    assert any(task.worker for task in world.tasks.values())

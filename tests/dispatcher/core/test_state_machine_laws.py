"""What no scenario can say: laws that hold for every run of the dispatcher's core."""

from collections import Counter, defaultdict
from functools import cache
from typing import get_args

import pytest

from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.mixture import decode
from penstock.protocol.types import Mode
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.fact_values import RestoredTask
from penstock_dispatcher.core.facts import RoundsFact
from penstock_dispatcher.core.state import DispatcherState
from tests.dispatcher.core.random_cluster import run_world
from tests.dispatcher.core.replay import assert_replay_is_equal, written_and_read

pytestmark = pytest.mark.xdist_group("laws of the dispatcher")  # they share worlds

SEEDS = range(120)
blocks = pytest.mark.parametrize("first", range(0, 120, 20))


@cache
def settled(seed):
    """Return a world in which all that can end came to its end; laws look at it only."""
    world = run_world(seed)
    world.settle()
    return world


@pytest.mark.quick(1)
@blocks
def test_every_unit_of_every_pass_is_free_or_in_one_log(first):
    for seed in range(first, first + 20):
        check_splits(settled(seed))


def check_splits(world):
    """Replay the grants: no unit twice, no pass before the one before it is handed out."""
    streams, dataset, owner = {}, {}, {}
    given, turns = defaultdict(Counter), Counter()
    ended = Counter()
    made = defaultdict(list)
    for fact in world.facts:
        match fact:
            case f.JobCreated(job, parameters):
                dataset[job] = parameters
            case f.IterationOpened(iteration, job):
                streams[iteration] = world.datasets[dataset[job].dataset]
            case f.IterationRestored(iteration, job):
                streams[iteration] = world.datasets[dataset[job].dataset]
                for stream, was in enumerate(fact.providers):
                    units = streams[iteration][stream].units
                    turns[iteration, stream] = was.pass_number
                    for turn in range(was.pass_number + 1 if units else 0):
                        stop = units if turn < was.pass_number else was.offset
                        given[(iteration, stream), turn].update(range(stop))
                for was in fact.tasks:
                    owner[was.task] = iteration
                    made[iteration].append(was.task)
                    ended.update({(was.task, s): n for s, n in enumerate(was.ended)})
            case f.TaskCreated(task, iteration):
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
            case f.IterationFinished(iteration) if (
                made[iteration] and dataset_mode(world, iteration) is Mode.DYNAMIC
            ):
                for stream, plan in enumerate(streams[iteration]):
                    for turn in range(plan.passes if plan.units else 0):
                        assert sum(given[(iteration, stream), turn].values()) == plan.units
                    for task in made[iteration]:
                        assert ended[task, stream] == (plan.passes if plan.units else 1)


@pytest.mark.slow
def test_every_split_of_a_mixture_has_the_weights_that_were_recorded_before_it():
    assert sum(map(check_weights, map(settled, SEEDS))) > 300


def check_weights(world):
    """Hold splits of mixtures against the changes before them; return how many changes there are.

    A change replaces those from its turn on, and later passes and repetitions begin with it.
    """
    streams, dataset, owner, job_of, changes = {}, {}, {}, {}, 0
    stages, of_job, passes, granted = defaultdict(list), defaultdict(list), Counter(), Counter()
    for fact in world.facts:
        match fact:
            case f.JobCreated(job, parameters):
                dataset[job] = world.datasets[parameters.dataset]
            case f.IterationOpened(iteration, job):
                job_of[iteration], streams[iteration] = job, dataset[job]
                for stream in range(len(dataset[job])):
                    stages[iteration, stream] = of_job[job, stream]
                    of_job[job, stream] = [(0, 0, p) for _, _, p in of_job[job, stream][-1:]]
            case f.IterationRestored(iteration, job):
                job_of[iteration], streams[iteration] = job, dataset[job]
                for stream, was in enumerate(fact.providers):
                    stages[iteration, stream] = stages_in(was.changes)
                    granted[iteration, stream, was.pass_number] = was.offset
                    of_job[job, stream] = stages_in(fact.weights.get(stream, ()))
                owner.update({task.task: iteration for task in fact.tasks})
                passes.update({(t.task, i): n for t in fact.tasks for i, n in enumerate(t.ended)})
            case f.TaskCreated(task, iteration):
                owner[task] = iteration
            case f.WeightsChanged(job, iteration, stream, change):
                changes += 1
                new = stages_in([change])
                if iteration is None:
                    of_job[job, stream] = before(new[0], of_job[job, stream]) + new
                    continue
                assert job_of[iteration] == job
                stages[iteration, stream] = before(new[0], stages[iteration, stream]) + new
                of_job[job, stream] = [(0, 0, new[0][2])]
                turn, begin = change.pass_number, change.stage.begin
                assert granted[iteration, stream, turn] <= begin, "a task has that turn"
                assert not granted[iteration, stream, turn + 1]
            case f.SplitsGranted(task, stream, splits):
                key = owner[task], stream
                mixture = streams[owner[task]][stream].mixture
                for split in splits:
                    turn = passes[task, stream]
                    passes[task, stream] += not split
                    granted[(*key, turn)] = max(granted[(*key, turn)], split.stop)
                    for unit in range(split.start, split.stop) if mixture is not None else ():
                        known = before((turn, unit + 1), stages[key])
                        wanted = known[-1][2] if known else mixture.stages[0].parts
                        has = decode(split.names[0]) if split.names else mixture.stages
                        found = [one.parts for one in has if one.begin <= unit]
                        assert found[-1] == wanted, f"turn {unit} of pass {turn}"
    return changes


def stages_in(changes):
    return [(one.pass_number, one.stage.begin, one.stage.parts) for one in changes]


def before(at, stages):
    """Return those of *stages* that begin before *at*, a pass and a turn."""
    return [one for one in stages if one[:2] < at[:2]]


def dataset_mode(world, iteration):
    opened = next(
        x
        for x in world.facts
        if isinstance(x, f.IterationOpened | f.IterationRestored) and x.iteration == iteration
    )
    made = next(x for x in world.facts if isinstance(x, f.JobCreated) and x.job == opened.job)
    return made.parameters.mode


@pytest.mark.slow
def test_replaying_all_facts_gives_an_equal_state():
    for seed in SEEDS:
        world = settled(seed)
        again = DispatcherState()

        for fact in world.facts:
            again.apply(fact)

        assert again == world.core.state, f"seed {seed}"


@pytest.mark.slow
def test_a_state_that_was_written_and_read_goes_on_like_one_that_was_not():
    for seed in range(30):
        assert_replay_is_equal(run_world(seed))


@pytest.mark.slow
def test_facts_are_plain_values():
    seen = written_and_read(map(settled, range(60)))
    kinds = (*get_args(f.JobFact), *get_args(f.PeerFact), *get_args(f.TaskFact), DatasetRegistered)
    elsewhere = {"TaskFailed", "TaskCounted"}
    elsewhere |= {kind.__name__ for kind in get_args(RoundsFact)}
    assert seen == {kind.__name__ for kind in kinds} - elsewhere


@pytest.mark.quick(1)
@blocks
def test_nothing_happens_to_an_iteration_behind_its_end(first):
    for seed in range(first, first + 20):
        world = settled(seed)
        finished, owner = set(), {}
        for fact in world.facts:
            if isinstance(fact, f.TaskCreated):
                owner[fact.task] = fact.iteration
            iteration = getattr(fact, "iteration", owner.get(getattr(fact, "task", None)))
            if iteration in finished:
                kinds = f.IterationDeleted | f.ConsumptionReported
                assert isinstance(fact, kinds), f"seed {seed}: {fact}"
            if isinstance(fact, f.IterationFinished):
                finished.add(fact.iteration)


@pytest.mark.quick(1)
@pytest.mark.parametrize("gc_dynamic", [False, True])
def test_what_was_acked_of_a_named_job_is_not_delivered_again_in_silence(gc_dynamic):
    kept = 0
    for seed in range(15):
        world = run_world(seed, gc_dynamic=gc_dynamic)
        for _ in range(120):  # everybody is gone
            world.now += 0.5
            world.tick()
        state = world.core.state
        begun = {
            name: any(task.acked.floor for task in one.tasks.values())
            for name, one in state.iterations.items()
            if one.job == "j"
        }
        forgotten = [
            fact.iteration
            for fact in world.facts
            if isinstance(fact, f.IterationDeleted) and fact.unfinished
        ]
        kept += len(forgotten) if gc_dynamic else sum(begun.values())
        assert not (forgotten and not gc_dynamic) and not (any(begun.values()) and gc_dynamic)
        assert not any(worker.tasks for worker in state.workers.values())
        before = dict(state.jobs["j"].open) if "j" in state.jobs else {}
        refused = set(state.jobs["j"].unfinished) if "j" in state.jobs else set()
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
    for seed in range(20):
        world = settled(seed)
        ids = [
            fact.task
            if isinstance(fact, f.TaskCreated | RestoredTask)
            else fact.iteration
            if isinstance(fact, f.IterationOpened | f.IterationRestored)
            else fact.reader
            for whole in world.facts
            for fact in (whole, *getattr(whole, "tasks", ()))
            if isinstance(
                fact,
                f.TaskCreated
                | RestoredTask
                | f.IterationOpened
                | f.IterationRestored
                | f.ReaderJoined,
            )
        ]

        assert len(ids) == len(set(ids))
        assert all(number > seed for number in ids)


@pytest.mark.slow
def test_what_is_volatile_does_not_pile_up():
    for seed in range(30):
        world = run_world(seed, gc_dynamic=True)
        world.settle()
        for reader in world.readers:
            if not reader.finished and not reader.left and reader.id is not None:
                reader.beats += 1
                reader.left = True
                world.tell(
                    ReaderHeartbeat(
                        reader.iteration, reader.session, reader.id, reader.beats, leaving=True
                    )
                )
        world.now += 1000
        for _ in range(400):
            world.now += 0.5
            world.tick()

        heard, state = world.core.ctx.soft_state, world.core.state
        assert not state.iterations
        assert not state.owners
        assert not (heard.readers or heard.progress or heard.reported_acks or heard.draw_rates)
        assert not (heard.idle_since or heard.connected or heard.barrier_since or heard.workers)
        assert not world.core.ctx.waiting
        assert not world.core.ctx.notifications.views
        assert not world.core.ctx.notifications.revisions

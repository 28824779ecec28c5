"""Laws of the cross-trainer cache: what holds however processes end and messages are late."""

from functools import cache

import pytest

from tests.dispatcher.core.random_cached import RandomCached
from tests.dispatcher.core.replay import assert_replay_is_equal, written_and_read

pytestmark = pytest.mark.xdist_group("laws of caches")  # they share worlds

SEEDS = range(100)
blocks = pytest.mark.parametrize("first", range(0, 100, 20))


@cache
def settled(seed):
    """Return a world in which all trainers came to the end; that asserts laws at each fact."""
    world = RandomCached(seed)
    for _ in range(150):
        world.step()
    world.settle()
    return world


@pytest.mark.quick(1)
@blocks
def test_each_trainer_comes_to_its_end_and_all_laws_hold(first):
    for seed in range(first, first + 20):
        assert all(reader.finished for reader in settled(seed).readers.values()), f"seed {seed}"


@pytest.mark.slow
def test_a_reader_is_told_of_the_end_when_its_trainer_has_had_all():
    for seed in SEEDS:
        world = settled(seed)
        for trainer in {reader.trainer for reader in world.readers.values()}:
            for task in world.tasks:
                assert world.has_all(trainer, task), f"seed {seed}"


@pytest.mark.slow
def test_where_no_worker_died_the_account_is_exact():
    tried = 0
    for seed in SEEDS:
        world = settled(seed)
        account = world.stats.account
        if world.lost_windows or account.moved:
            continue
        tried += 1
        for one in account.trainers:
            had = [set(world.consumed[one.trainer, task]) for task in world.tasks]
            assert one.acked <= account.elements, f"seed {seed}"
            if one.done and not any(world.of_the_dead[one.trainer, task] for task in world.tasks):
                assert one.skipped + one.before + sum(map(len, had)) == account.elements
    assert tried > 10


@pytest.mark.quick(1)
@blocks
def test_a_replay_is_the_state_whenever_the_dispatcher_dies(first):
    seeds = range(first, first + 20)
    assert sum(settled(seed).restarts for seed in seeds) > 10
    for seed in seeds:
        settled(seed).restart()


def test_passes_end_when_their_trainers_are_gone():
    for seed in SEEDS[:20]:
        world = settled(seed)
        first = world.record
        for reader in list(world.readers.values()):
            world.say(reader, leaving=True)
        world.readers.clear()
        world.open(repetition=2)
        world.passes(110.0)
        assert first.finished, f"seed {seed}"
        assert not any(worker.tasks for worker in world.core.state.workers.values())
        soft = world.core.ctx.soft_state
        assert not (soft.trainers or soft.progress)
        world.restart()


@pytest.mark.quick(1)
@blocks
def test_replay_gives_an_equal_state_also_of_one_that_was_written_and_read(first):
    for seed in range(first, first + 20):
        assert_replay_is_equal(settled(seed))


def test_facts_of_cached_jobs_can_be_written_and_read():
    seen = written_and_read(map(settled, SEEDS[:20]))
    assert {"TrainerDone", "TrainersReported", "ReaderRemoved", "AttemptStarted"} <= seen

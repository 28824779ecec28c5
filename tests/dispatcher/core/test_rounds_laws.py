"""Laws of coordinated reads: what holds however processes end and messages are lost."""

from functools import cache

import pytest

from penstock.protocol.types import Mode
from penstock_dispatcher.core import facts as f
from tests.dispatcher.core.random_rounds import RandomRounds
from tests.dispatcher.core.replay import assert_replay_is_equal, written_and_read

pytestmark = pytest.mark.xdist_group("laws of rounds")  # they share worlds

SEEDS = range(120)
blocks = pytest.mark.parametrize("first", range(0, 120, 20))


@cache
def settled(seed):
    """Return a world in which the pass came to its end; that asserts laws at each fact."""
    world = RandomRounds(seed)
    for _ in range(150):
        world.step()
    world.settle()
    return world


@pytest.mark.quick(1)
@blocks
def test_each_pass_ends_and_all_its_laws_hold(first):
    for seed in range(first, first + 20):
        assert settled(seed).record.finished, f"seed {seed}"


@pytest.mark.slow
def test_all_who_take_a_round_take_the_same_group():
    for seed in SEEDS:
        world, rounds = settled(seed), {}
        counted = {}
        for number, task in enumerate(world.log):
            rounds[number] = task, counted.get(task, 0)
            counted[task] = counted.get(task, 0) + 1
        for consumer in world.readers.values():
            for number, task, group in consumer.took:
                assert rounds[number] == (task, group), f"seed {seed}"
            numbers = [number for number, _, _ in consumer.took]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else 1


@pytest.mark.slow
def test_each_group_of_each_task_is_a_round_once():
    for seed in SEEDS:
        world = settled(seed)
        for task in {fact.task for fact in world.facts if isinstance(fact, f.TaskCreated)}:
            total, closed = world.total(task)
            assert closed
            short = world.parameters["remainder"] != "drop" and total % world.count > 0
            assert world.log.count(task) == total // world.count + short, f"seed {seed}"


@pytest.mark.quick(1)
@blocks
def test_tasks_take_turns_in_an_order_that_is_to_be_the_same_each_time(first):
    tried = 0
    for seed in range(first, first + 20):
        world = settled(seed)
        if not world.parameters["ordered"]:
            continue
        created = [fact.task for fact in world.facts if isinstance(fact, f.TaskCreated)]
        left = {task: world.log.count(task) for task in created}
        expected = []
        while any(left.values()):
            for task in created:
                if left[task]:
                    expected.append(task)
                    left[task] -= 1
        assert world.log == expected, f"seed {seed}"
        tried += len(created) > 1 and len(expected) > 4
    assert tried


@pytest.mark.quick(1)
@blocks
def test_the_account_of_a_pass_balances(first):
    for seed in range(first, first + 20):
        world = settled(seed)
        (known,) = world.core.stats(world.now).iterations
        assert known.account.acked == known.account.elements, f"seed {seed}"
        assert known.rounds.floor == known.rounds.last == len(world.log)
        if world.mode is Mode.DYNAMIC:
            assert known.account.elements == world.elements


@pytest.mark.quick(1)
@blocks
def test_replay_gives_an_equal_state_also_of_one_that_was_written_and_read(first):
    for seed in range(first, first + 20):
        assert_replay_is_equal(settled(seed))


def test_facts_of_rounds_are_plain_values():
    seen = written_and_read(map(settled, range(20)))
    assert {
        "ConsumerJoined",
        "ConsumerEnded",
        "RoundsAdvanced",
        "ReaderRemoved",
        "TaskDone",
    } <= seen

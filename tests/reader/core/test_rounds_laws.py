"""What holds of consumers in every run: laws, tried in random worlds."""

from random import Random

import pytest

from penstock.reader.core.limits import ByteLimit, TaskFrameLimit
from tests.reader.core.random_rounds import RandomRounds

LIMITS = [lambda: ByteLimit(1 << 20), lambda: TaskFrameLimit(1), lambda: TaskFrameLimit(7)]


def world(seed, **fields):
    chance = Random(seed)
    return RandomRounds(
        chance,
        count=chance.randint(1, 3),
        tasks=chance.randint(1, 4),
        limit=chance.choice(LIMITS),
        **fields,
    )


def rounds_of(loop):
    return [(task, group) for task, group, _ in loop.got]


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(5))
def test_in_peace_each_consumer_gets_all_rounds_in_order_from_one_attempt(block):
    for seed in range(block * 20, block * 20 + 20):
        run = world(seed, faults=False).run()

        log = [(entry.task, entry.group) for entry in run.log]
        assert len(log) == sum(task.groups for task in run.tasks.values()), seed
        for loop in run.loops:
            assert rounds_of(loop) == log, seed
            assert loop.core.finished, seed


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(10))
def test_whatever_breaks_each_process_gets_the_rounds_from_its_first_on_in_order(block):
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        run = world(seed).run()

        log = [(entry.task, entry.group) for entry in run.log]
        for loop in run.loops:
            assert rounds_of(loop) == log[loop.start :], seed
        for loop in run.gone:
            got = rounds_of(loop)
            assert got == log[loop.start : loop.start + len(got)], seed

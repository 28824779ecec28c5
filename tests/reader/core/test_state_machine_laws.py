"""What holds of readers in every run: laws, tried in random worlds."""

from collections import Counter
from random import Random

import pytest

from penstock.reader.core.limits import FrameLimit


@pytest.mark.quick(2)
@pytest.mark.parametrize("block", range(10))
def test_in_peace_each_element_is_handed_out_once_whatever_the_order_of_messages(world, block):
    for seed in range(block * 8, block * 8 + 8):
        chance = Random(seed)
        run = world(chance, loops=chance.randint(1, 3), tasks=chance.randint(1, 3), faults=False)
        run.run()

        got = Counter(element for loop in run.loops for element in loop.got)
        assert set(got) == run.everything(), seed
        assert set(got.values()) <= {1}, seed


@pytest.mark.quick(2)
@pytest.mark.parametrize("block", range(10))
def test_cut_streams_and_expired_readers_lose_nothing_and_repeat_what_is_in_doubt(world, block):
    for seed in range(1000 + block * 8, 1000 + block * 8 + 8):
        chance = Random(seed)
        run = world(chance, loops=chance.randint(1, 3), tasks=chance.randint(1, 3)).run()

        got = Counter(element for loop in run.loops for element in loop.got)
        assert set(got) == run.everything(), seed
        takers = {e: [each.name for each in run.loops if e in each.got] for e in got if got[e] > 1}
        for element, names in takers.items():
            innocent = [name for name in names if name not in run.expired]
            assert len(innocent) <= 1, (seed, element)


@pytest.mark.quick(1)
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_a_limit_in_frames_holds_and_everything_still_arrives(world, frames):
    for seed in range(2000, 2025):
        chance = Random(seed)
        run = world(
            chance,
            loops=chance.randint(1, 2),
            tasks=chance.randint(1, 3),
            limit=lambda: FrameLimit(frames),
        ).run()

        got = {element for loop in run.loops for element in loop.got}
        assert got == run.everything(), seed


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(5))
def test_loops_that_wait_for_each_other_all_finish(world, block):
    for seed in range(4000 + block * 8, 4000 + block * 8 + 8):
        chance = Random(seed)
        run = world(chance, loops=chance.randint(2, 3), tasks=chance.randint(1, 2), lockstep=True)
        run.run()

        got = {element for loop in run.loops for element in loop.got}
        assert got == run.everything(), seed


def test_one_reader_gets_each_task_in_order(world):
    for seed in range(3000, 3030):
        run = world(Random(seed), loops=1, tasks=2, faults=False).run()

        for task in run.sources:
            numbers = [number for t, number in run.loops[0].got if t == task]
            assert numbers == sorted(numbers), seed


def test_the_same_run_gives_the_same_result(world):
    runs = [world(Random(5), loops=2, tasks=2).run() for _ in range(2)]

    assert runs[0].loops[0].got == runs[1].loops[0].got
    assert runs[0].now == runs[1].now


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(5))
def test_behind_operators_each_element_is_handed_out_once_in_peace(world, block):
    for seed in range(5000 + block * 8, 5000 + block * 8 + 8):
        chance = Random(seed)
        loops, tasks = chance.randint(1, 3), chance.randint(1, 3)
        run = world(chance, loops=loops, tasks=tasks, faults=False, buffers=True).run()

        got = Counter(element for loop in run.loops for element in loop.got)
        assert set(got) == run.everything(), seed
        assert set(got.values()) <= {1}, seed


@pytest.mark.quick(2)
@pytest.mark.parametrize("block", range(10))
def test_behind_operators_nothing_is_lost_and_only_in_doubt_elements_come_twice(world, block):
    for seed in range(6000 + block * 8, 6000 + block * 8 + 8):
        chance = Random(seed)
        run = world(chance, loops=chance.randint(1, 3), tasks=chance.randint(1, 3), buffers=True)
        run.run()

        got = Counter(element for loop in run.loops for element in loop.got)
        assert set(got) == run.everything(), seed
        for element in (e for e in got if got[e] > 1):
            takers = [each.name for each in run.loops for e in each.got if e == element]
            assert len(takers) == len(set(takers)), (seed, element)
            assert sum(name not in run.expired for name in takers) <= 1, (seed, element)


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(5))
def test_loops_behind_operators_that_wait_for_each_other_all_finish(world, block):
    for seed in range(7000 + block * 8, 7000 + block * 8 + 8):
        chance = Random(seed)
        loops, tasks = chance.randint(2, 3), chance.randint(1, 2)
        run = world(chance, loops=loops, tasks=tasks, lockstep=True, buffers=True).run()

        got = {element for loop in run.loops for element in loop.got}
        assert got == run.everything(), seed


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", range(3))
def test_what_operators_cut_into_pieces_comes_once_to_readers_in_good_standing(world, block):
    for seed in range(8000 + block * 8, 8000 + block * 8 + 8):
        chance = Random(seed)
        run = world(chance, loops=2, tasks=chance.randint(1, 2), buffers="cut").run()

        got = Counter(element for loop in run.loops for element in loop.got)
        assert set(got) == run.everything(), seed
        for element in (e for e in got if got[e] > 1):
            takers = [each.name for each in run.loops for e in each.got if e == element]
            assert sum(name not in run.expired for name in takers) <= 1, (seed, element)


@pytest.mark.quick(2)
@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize("block", range(5))
def test_a_save_holds_just_what_the_loops_have(world, block, buffers):
    saved = 0
    for seed in range(9000 + block * 8, 9000 + block * 8 + 8):
        chance = Random(seed)
        loops, tasks = chance.randint(1, 3), chance.randint(1, 3)
        run = world(chance, loops=loops, tasks=tasks, buffers=buffers, saves=True)
        run.run(60_000)
        saved += len(run.save_results)

        assert {element for loop in run.loops for element in loop.got} == run.everything(), seed
    assert saved

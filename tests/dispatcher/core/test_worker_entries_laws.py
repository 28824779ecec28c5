"""What holds for all runs with a list of workers: parts stay at their places, and end."""

from functools import cache

import pytest

from penstock.protocol.types import Mode
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.state import DispatcherState
from tests.dispatcher.core.random_cluster import RandomCluster, run_world

pytestmark = pytest.mark.xdist_group("laws of places")  # they share worlds

blocks = pytest.mark.parametrize("first", range(0, 60, 20))


class ListedCluster(RandomCluster):
    """Three places, for which four workers come; copies and splits go anywhere beside the parts."""

    modes = (Mode.DATA, Mode.FILE, Mode.HINT, Mode.DYNAMIC, Mode.OFF)
    named = Mode.DATA
    listed = ("w0", "w1", "w2")


@cache
def settled(seed):
    """Return a world in which all that can end came to its end; laws look at it only."""
    world = run_world(seed, ListedCluster)
    world.settle()
    return world


def history(world):
    """Yield each fact, with the state before it."""
    state = DispatcherState()
    for fact in world.facts:
        yield fact, state
        state.apply(fact)
    assert state == world.core.state


@pytest.mark.quick(1)
@blocks
def test_a_part_runs_at_its_place_only(first):
    for seed in range(first, first + 20):
        for fact, state in history(settled(seed)):
            if isinstance(fact, f.AttemptStarted):
                task = state.task(fact.task)
                if state.iterations[task.iteration].shards:
                    assert state.workers[fact.worker].entry == task.index, f"seed {seed}"


@pytest.mark.quick(1)
@blocks
def test_a_place_has_one_worker_and_who_is_not_listed_has_none(first):
    for seed in range(first, first + 20):
        for fact, state in history(settled(seed)):
            if isinstance(fact, f.WorkerRegistered):
                assert fact.entry == ListedCluster.listed.index(fact.worker), f"seed {seed}"
                assert fact.entry not in {known.entry for known in state.workers.values()}


@pytest.mark.quick(1)
@blocks
def test_there_are_as_many_parts_as_places_in_all_passes(first):
    made = 0
    for seed in range(first, first + 20):
        for fact, state in history(settled(seed)):
            if isinstance(fact, f.IterationFinished):
                iteration = state.iterations[fact.iteration]
                if iteration.shards:
                    made += 1
                    assert iteration.next_task == iteration.shards == 3, f"seed {seed}"
    assert made > 5

"""What no scenario can say: laws of the worker's core that hold for every run.

Around one `Core`, without an event loop, there is a small world: see `random_cluster.py`.
"""

from collections import Counter

import pytest


def ends(world, seed):
    """Let *world* calm down, and come to its end."""
    for _ in range(60_000):
        if world.done:
            return
        world.step(calm=True)
    attempt = world.core.attempts.get(1)
    state = attempt and (attempt.state, vars(attempt.delivery.ownership))
    raise AssertionError(f"seed {seed}: it does not end: {state}")


@pytest.mark.quick(2)
@pytest.mark.parametrize("block", range(8))
def test_every_element_is_acked_once_whatever_happens(block, random_cluster):
    counts = Counter()
    for seed in range(block * 15, block * 15 + 15):
        world = random_cluster.RandomCluster(seed, readers=1 + seed % 4)
        for _ in range(world.rng.randint(0, 1500)):
            world.step()
        ends(world, seed)
        counts.update(world.counts)

        assert world.runner is None and not world.kept, f"seed {seed}: memory is left"
        assert all(
            any(type(message).__name__ == "StreamEnd" for message, _ in line.down)
            for _, line in world.streams.values()
        ), f"seed {seed}: a stream does not end"
        for number in range(world.source):
            takers = world.takers[number]
            again = [reader for reader in takers if not reader.gone]
            assert len(again) <= 1, f"seed {seed}: {number} is acked twice"
    assert all(counts[name] for name in ("deaths", "attempts", "lives", "dropped", "drains")), (
        counts
    )

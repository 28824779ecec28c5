"""Which workers are slow: beside others with the same jobs, for a while, and not for readers."""

from dataclasses import replace

from penstock_dispatcher.page.mesh_view import mesh_view
from penstock_dispatcher.page.pace import paces
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def standings(scene, seconds=6):
    _, moment = looked(scene, seconds)
    return {one.standing for one in mesh_view(moment).workers}


def test_a_worker_without_peers_has_no_pace():
    workers, one = scenes.a_job(1.0, 0.1, count=1)

    assert paces([one], {}, {task.task: 5.0 for task in one.tasks}) == {}
    assert len(workers) == 1


def test_of_two_workers_the_slower_one_is_beside_the_other():
    _, one = scenes.a_job(1.0, 0.1, count=2, per_worker=1)
    first, second = one.tasks

    seen = paces([one], {}, {first.task: 6.0, second.task: 1.0})

    assert [(p.rate, p.median, p.is_slow) for p in seen.values()] == [
        (6.0, 1.0, False),
        (1.0, 6.0, True),
    ]


def test_a_worker_that_waits_for_readers_is_not_slow():
    def scene(t):
        stats = scenes.slow_worker(t)
        slow = stats.workers[2]
        full = [one | {"nbytes": int(0.9 * one["room"])} for one in slow.stats["tasks"]]
        workers = list(stats.workers)
        workers[2] = replace(slow, stats=slow.stats | {"tasks": full})
        return replace(stats, workers=tuple(workers))

    assert standings(scene) == {"live"}


def test_a_worker_is_not_called_slow_for_a_moment():
    assert standings(scenes.slow_worker, 3) == {"live"}

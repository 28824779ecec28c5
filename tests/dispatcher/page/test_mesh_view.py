"""The picture of a mesh: one by one while that can be read, in groups beyond; nothing left out."""

from dataclasses import replace

import pytest

from penstock_dispatcher.core.stats import LostWorker
from penstock_dispatcher.page.details import workers_listed
from penstock_dispatcher.page.mesh_view import (
    APART,
    JOBS_APART,
    MANY,
    TASKS_APART,
    mesh_view,
    worker_groups,
)
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def view(scene, seconds=6):
    _, moment = looked(scene, seconds)
    return mesh_view(moment), moment


def test_few_workers_readers_and_tasks_are_drawn_one_by_one():
    seen, moment = view(scenes.healthy)

    assert [one.label for one in seen.workers] == [w.address for w in moment.stats.workers]
    assert [one.label for one in seen.readers] == ["trainer-0, rank 0", "trainer-1, rank 1"]
    assert {flow.task for flow in seen.task_flows} == {
        task.task for it in moment.stats.iterations for task in it.tasks
    }
    assert seen.grouped == ()


def test_a_thousand_workers_are_a_few_groups_with_all_that_they_have():
    seen, moment = view(scenes.thousand, 2)

    workers = moment.stats.workers
    assert len(seen.workers) + len(seen.readers) <= 2 * APART
    assert sum(one.count for one in seen.workers) == len(workers) == 1000
    assert sum(one.slots for one in seen.workers) == sum(w.slots for w in workers)
    assert sum(one.slots_used for one in seen.workers) == sum(w.slots_used for w in workers)
    assert sum(one.rate for one in seen.workers) == pytest.approx(sum(moment.by_worker.values()))
    assert sum(flow.count for flow in seen.task_flows) == 1000
    assert all(flow.task is None for flow in seen.task_flows)
    assert seen.grouped == ("workers", "readers")


def test_groups_tell_slow_workers_and_those_that_are_gone_from_the_rest_worst_first():
    _, moment = view(scenes.thousand, 6)

    groups = worker_groups(moment)

    assert list(groups) == ["disconnected", "drains", "live, as usual", "live, slow"]
    assert {w.connected for w in groups["disconnected"]} == {False}
    assert all(moment.by_worker[w.address] < 15 for w in groups["live, slow"])


def test_a_lost_worker_stays_in_sight_for_a_minute():
    was = lambda seconds: [
        (one.label, one.lost) for one in view(scenes.lost_and_drained, seconds)[0].workers
    ]
    two = [("worker-0.local:7001", None), ("worker-2.local:7001", None)]

    assert was(50) == [*two, ("worker-1.local:7001", 5)]
    assert was(109) == [*two, ("worker-1.local:7001", 64)]
    assert was(110) == two


def test_lost_workers_of_many_are_a_group():
    def scene(t):
        stats = scenes.thousand(t)
        if t < 2:
            return stats
        gone = tuple(LostWorker(w.address, 12.0 + i) for i, w in enumerate(stats.workers[:3]))
        return replace(stats, workers=stats.workers[3:], lost_workers=gone)

    seen, moment = view(scene, 4)

    assert (seen.workers[0].label, seen.workers[0].count, seen.workers[0].lost) == ("lost", 3, 12)
    assert [one.address for one in workers_listed(moment, "lost").workers] == list(moment.lost)


def test_a_worker_that_comes_back_is_not_lost():
    def scene(t):
        return replace(scenes.healthy(t), lost_workers=(LostWorker("worker-1.local:7001", 9.0),))

    seen, _ = view(scene)

    assert {one.lost for one in seen.workers} == {None}


def test_a_worker_much_slower_than_others_with_the_same_job_is_marked():
    seen, _ = view(scenes.slow_worker)

    slow = [one for one in seen.workers if one.standing == "slow"]
    assert [one.label for one in slow] == ["worker-2.local:7001"]
    assert slow[0].rate == pytest.approx(16, rel=0.1)
    assert slow[0].median == pytest.approx(104, rel=0.2)


def test_flows_of_a_worker_have_the_bytes_that_its_readers_get():
    seen, moment = view(scenes.healthy)

    links = [link for it in moment.stats.iterations for r in it.readers for link in r.links]
    for worker in seen.workers:
        flows = sum(flow.nbytes for flow in seen.task_flows if flow.worker == worker.key)
        known = sum(link.rate for link in links if link.worker == worker.key)
        assert flows == pytest.approx(known, rel=0.001)
    assert sum(flow.nbytes for flow in seen.reader_flows) == pytest.approx(
        sum(link.rate for link in links), rel=0.001
    )


def test_of_many_jobs_the_busiest_are_drawn_and_the_others_together():
    def scene(t):
        made = [
            scenes.a_job(t, 0.1, rate=10.0 * (i + 1), number=1000 * (i + 1), job=f"job {i}")
            for i in range(20)
        ]
        return scenes.mesh(made[0][0], [one for _, one in made])

    seen, _ = view(scene)

    assert len(seen.jobs) == JOBS_APART
    assert seen.jobs[-1].iteration == MANY
    assert seen.jobs[-1].count == 20 - JOBS_APART + 1
    assert [one.label for one in seen.jobs[:-1]] == [f"job {i}" for i in range(13, 20)]
    assert sum(flow.count for flow in seen.task_flows) == 20 * 8 > TASKS_APART

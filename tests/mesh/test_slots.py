"""Workers with several slots, with real processes."""

import json
import os
import signal
import time
from collections import Counter

import pytest

from penstock.dataset.dataset import Dataset
from penstock_cluster.cli.status import look
from penstock_worker.config import WorkerConfig


def where(x):
    """Return an element with the process that made it; it takes a while."""
    time.sleep(0.002)
    return int(x), os.getpid()


def pairs(dataset):
    return [(int(x), int(pid)) for x, pid in dataset]


@pytest.mark.slow
def test_a_worker_of_two_slots_makes_a_job_in_two_processes_and_one_slot_in_one(clusters):
    with clusters.own(workers=1, worker=WorkerConfig(slots=2)) as cluster:
        found = pairs(Dataset.range(400).map(where).distribute("distributed_epoch", cluster.target))
        made = Counter(pid for _, pid in found)
        assert sorted(x for x, _ in found) == list(range(400))
        assert len(made) == 2
        assert min(made.values()) > 50

        copies = pairs(Dataset.range(40).map(where).distribute("parallel_epochs", cluster.target))
        assert [x for x, _ in copies] == list(range(40))
        assert len({pid for _, pid in copies}) == 1


def test_what_is_not_split_is_copied_once_a_worker_whatever_its_slots(clusters):
    numbers = [Dataset.range(100).map(where), Dataset.range(1000, 1100).map(where)]
    chosen = Dataset.choose_from_datasets(numbers, Dataset.range(2).repeat(20))
    with clusters.own(workers=1, worker=WorkerConfig(slots=4)) as cluster:
        found = pairs(chosen.distribute("distributed_epoch", cluster.target))

    assert [x >= 1000 for x, _ in found] == [False, True] * 20
    assert len({pid for _, pid in found}) == 1


@pytest.mark.slow
def test_a_killed_runner_takes_nothing_along_and_the_other_one_goes_on(clusters):
    with clusters.own(workers=1, worker=WorkerConfig(slots=2)) as cluster:
        dataset = Dataset.range(1000).map(where).distribute("distributed_epoch", cluster.target)
        with iter(dataset) as far:
            seen = [tuple(map(int, next(far))) for _ in range(100)]
            first, second = sorted({pid for _, pid in seen})
            os.kill(first, signal.SIGKILL)
            seen += [tuple(map(int, pair)) for pair in far]

        assert sorted(x for x, _ in seen) == list(range(1000))
        assert second in {pid for _, pid in seen[-400:]}
        (worker,) = look(cluster.target).stats.workers
        assert worker.stats["runners_lost"] == 1


@pytest.mark.slow
def test_two_jobs_share_the_slots_of_a_worker(clusters):
    def slots(cluster):
        (worker,) = look(cluster.target).stats.workers
        return worker.slots_used, worker.slots

    with clusters.own(workers=1, worker=WorkerConfig(slots=2)) as cluster:
        build = lambda: Dataset.range(10**6).map(where)
        with iter(build().distribute("distributed_epoch", cluster.target, job_name="a")) as one:
            next(one)
            assert slots(cluster) == (2, 2)
            with iter(build().distribute("distributed_epoch", cluster.target, job_name="b")) as two:
                made = {"a": Counter(), "b": Counter()}
                deadline = time.monotonic() + 30
                while slots(cluster) != (2, 2) or not made["b"]:
                    made["a"][int(next(one)[1])] += 1
                    made["b"][int(next(two)[1])] += 1
                    assert time.monotonic() < deadline

                assert len(made["b"]) == 1


@pytest.mark.slow
def test_a_state_of_two_workers_with_eight_slots_goes_on_at_three_with_four(clusters):
    def build(cluster):
        source = Dataset.range(6000).map(lambda x: x).shuffle(50).batch(3).unbatch()
        return source.distribute("distributed_epoch", cluster.target).batch(7)

    def flat(batches):
        return [int(x) for batch in batches for x in batch]

    with clusters.own(workers=2, worker=WorkerConfig(slots=8)) as cluster:
        with iter(build(cluster)) as it:
            seen = flat(next(it) for _ in range(120))
            (running,) = look(cluster.target).stats.iterations
            assert len(running.tasks) == 16
            state = json.loads(json.dumps(it.state()))

    with clusters.own(workers=3, worker=WorkerConfig(slots=4)) as cluster:
        after = flat(build(cluster).iterator(state))

    assert sorted(seen + after) == list(range(6000))


@pytest.mark.slow
def test_ordered_reads_use_the_slots_and_come_in_order(clusters):
    with clusters.own(workers=1, worker=WorkerConfig(slots=3)) as cluster:
        dataset = Dataset.range(600).map(where)
        found = pairs(dataset.distribute("distributed_epoch", cluster.target, ordered=True))

    assert [x for x, _ in found] == list(range(600))
    assert len({pid for _, pid in found}) >= 3

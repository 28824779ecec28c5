"""Trainers that share what workers make: each gets everything, and it is made once."""

import threading
import time
from collections import Counter
from itertools import count

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, JobMismatch, JobUsed, PenstockError
from penstock.service import CrossTrainerCache
from penstock_cluster import WorkerConfig
from tests.mesh.drivers import each

_names = count()


def job_name():
    return f"cached {next(_names)}"


def trainer(cluster, dataset, name, job, mode="distributed_epoch", **given):
    return dataset.distribute(
        mode, cluster.target, job, cross_trainer_cache=CrossTrainerCache(name), **given
    )


def counted(folder, elements, nbytes=8):
    """A dataset that leaves a line in *folder* for each element that is made."""

    def made(i):
        with open(folder / f"{i}", "a") as file:
            file.write("made\n")
        return np.full(nbytes, i % 251, np.uint8), i

    return Dataset.range(elements).map(made)


def times_made(folder):
    return Counter(path.read_text().count("made") for path in folder.iterdir())


def read_all(datasets):
    """Return the numbers of the elements that each dataset gave."""
    return each(lambda dataset: [int(number) for _, number in dataset], datasets)


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["distributed_epoch", "parallel_epochs"])
def test_each_trainer_gets_all_of_it_and_it_is_made_once(cluster, tmp_path, mode):
    dataset, job = counted(tmp_path, 300), job_name()
    got = read_all([trainer(cluster, dataset, f"t{i}", job, mode) for i in range(4)])

    copies = 1 if mode == "distributed_epoch" else 2
    for taken in got:
        assert Counter(taken) == Counter(list(range(300)) * copies)
    assert times_made(tmp_path) == {copies: 300}


def test_readers_of_one_trainer_share_its_elements(cluster, tmp_path):
    dataset, job = counted(tmp_path, 400), job_name()
    one, other, alone = read_all(
        [trainer(cluster, dataset, name, job) for name in ("both", "both", "alone")]
    )

    assert sorted(one + other) == sorted(alone) == list(range(400))
    assert times_made(tmp_path) == {1: 400}


def test_a_trainer_that_comes_later_gets_what_is_in_the_window(cluster, tmp_path):
    dataset, job = counted(tmp_path, 200), job_name()
    with iter(trainer(cluster, dataset, "first", job)) as first:
        seen = [int(next(first)[1]) for _ in range(150)]
        late = [int(number) for _, number in trainer(cluster, dataset, "late", job)]
        seen += [int(number) for _, number in first]

    assert sorted(late) == sorted(seen) == list(range(200))
    assert times_made(tmp_path) == {1: 200}


def test_a_second_pass_is_made_anew_once_for_all(cluster, tmp_path):
    dataset, job = counted(tmp_path, 100), job_name()
    trainers = [trainer(cluster, dataset, f"t{i}", job) for i in range(2)]

    for _ in range(2):
        assert [sorted(taken) for taken in read_all(trainers)] == [list(range(100))] * 2

    assert times_made(tmp_path) == {2: 100}


def test_a_trainer_that_comes_when_a_pass_is_over_is_refused_or_gets_nothing_and_is_warned(
    cluster, tmp_path, caplog
):
    dataset, job = counted(tmp_path, 50), job_name()
    first = trainer(cluster, dataset, "first", job)
    for _ in range(2):  # as it goes on to the second pass, the first one is over
        assert len(list(first)) == 50
    assert "is over" not in caplog.text

    for name in ("first", "late"):
        assert list(trainer(cluster, dataset, name, job, on_finished="warn")) == []

    words = f"job {job!r}, repetition 1 is over: it was read by trainer 'first' (50 elements)"
    assert [record.message.count(words) for record in caplog.records] == [1, 1]
    assert "Nothing of it comes here" in caplog.text
    with pytest.raises(JobUsed, match="gets an empty pass"):
        iter(trainer(cluster, dataset, "late", job))


SMALL = WorkerConfig(cross_trainer_cache_size_bytes=1 << 20)


def test_what_left_the_window_is_skipped_and_counted(clusters, tmp_path):
    dataset, job = counted(tmp_path, 200, nbytes=50_000), job_name()
    with clusters.own(workers=1, worker=SMALL) as cluster:
        slow = iter(trainer(cluster, dataset, "slow", job, max_outstanding_requests=1))
        seen = [int(next(slow)[1]) for _ in range(2)]
        fast = [int(number) for _, number in trainer(cluster, dataset, "fast", job)]
        seen += [int(number) for _, number in slow]

        assert sorted(fast) == list(range(200))
        assert len(set(seen)) == len(seen) < 200
        assert slow.skipped == 200 - len(seen)
    assert times_made(tmp_path) == {1: 200}


@pytest.mark.slow
def test_when_all_wait_nobody_skips(clusters, tmp_path):
    dataset, job = counted(tmp_path, 120, nbytes=50_000), job_name()

    def slowly(array, number):
        time.sleep(0.005)
        return array, number

    with clusters.own(workers=1, worker=SMALL) as cluster:
        fast, slow = (
            trainer(cluster, dataset, name, job, when_full="wait") for name in ("fast", "slow")
        )
        got = read_all([fast, slow.map(slowly)])

    assert [sorted(taken) for taken in got] == [list(range(120))] * 2
    assert times_made(tmp_path) == {1: 120}


@pytest.mark.slow
def test_a_killed_worker_has_no_trainer_skip(clusters, tmp_path):
    dataset, job = counted(tmp_path, 600), job_name()

    def slowly(array, number):
        time.sleep(0.001)
        return array, number

    with clusters.own(workers=2) as cluster:
        trainers = [trainer(cluster, dataset, f"t{i}", job).map(slowly) for i in range(3)]
        killer = threading.Timer(0.5, cluster.workers[0].kill)
        killer.start()
        got = read_all(trainers)
        killer.join()

    assert [sorted(taken) for taken in got] == [list(range(600))] * 3


def test_what_cannot_be_is_refused(cluster, tmp_path):
    dataset, job = Dataset.range(100), job_name()
    with iter(trainer(cluster, dataset, "one", job)) as elements:
        next(elements)
        with pytest.raises(PenstockError, match="shared window"):
            elements.state()
        with pytest.raises(JobMismatch, match="cross_trainer_cache is True, not False"):
            iter(dataset.distribute("distributed_epoch", cluster.target, job))
        with pytest.raises(JobMismatch, match="when_full is 'skip', not 'wait'"):
            iter(trainer(cluster, dataset, "two", job, when_full="wait"))
    with pytest.raises(DatasetError, match="trainer_id"):
        CrossTrainerCache("")

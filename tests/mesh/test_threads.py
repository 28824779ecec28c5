"""Several threads of a training process read one iterator over a job."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed

N = 4000
THREADS = 6


@pytest.fixture(autouse=True)
def frequent_turns():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


BEHIND = {
    "nothing": lambda ds: ds,
    "batch": lambda ds: ds.batch(7).unbatch(),
    "shuffle, prefetch": lambda ds: ds.shuffle(50).prefetch(9),
    "map in threads": lambda ds: ds.map(lambda x: x, 3),
    "map as completed": lambda ds: ds.map(lambda x: x, 3, deterministic=False),
}


def far(cluster, count=N):
    return Dataset.range(count).distribute("distributed_epoch", cluster.target)


@pytest.mark.quick(1)
@pytest.mark.parametrize("behind", BEHIND)
def test_each_element_comes_to_one_thread_and_the_end_to_all(cluster, nothing_left, behind):
    it = iter(BEHIND[behind](far(cluster)))
    with ThreadPoolExecutor(THREADS) as pool:
        reading = [pool.submit(list, it) for _ in range(THREADS)]
        parts = [job.result(60) for job in reading]

    assert sorted(int(x) for part in parts for x in part) == list(range(N))
    with pytest.raises(StopIteration):
        next(it)


def test_jobs_in_lockstep_are_read_by_threads(cluster):
    it = iter(Dataset.zip((far(cluster), far(cluster))).map(lambda x, y: (x, y)))
    with ThreadPoolExecutor(THREADS) as pool:
        reading = [pool.submit(list, it) for _ in range(THREADS)]
        pairs = [pair for job in reading for pair in job.result(60)]

    for side in zip(*pairs, strict=True):
        assert sorted(int(x) for x in side) == list(range(N))


@pytest.mark.parametrize("ahead", [0, 2])
def test_threads_that_wait_are_told_when_another_closes(cluster, ahead):
    def stuck(x):
        threading.Event().wait(60 if x == 20 else 0)
        return x

    made = Dataset.range(30).map(stuck).distribute("parallel_epochs", cluster.target)
    it = iter(made.prefetch(ahead) if ahead else made)
    with ThreadPoolExecutor(THREADS) as pool:
        reading = [pool.submit(lambda: [next(it) for _ in range(200)]) for _ in range(THREADS)]
        it.close()
        for job in reading:
            with pytest.raises(Closed):
                job.result(60)


@pytest.mark.slow
def test_a_state_is_had_while_other_threads_wait_for_elements(cluster):
    made = Dataset.range(10).map(lambda x: threading.Event().wait(0.3 if x == 6 else 0) or x)
    job = made.distribute("distributed_epoch", cluster.target, "saved beside threads")
    it = iter(job)
    got = [int(next(it)), int(next(it))]
    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(lambda: [int(x) for x in it]) for _ in range(3)]
        state = it.state()
        parts = [each.result(60) for each in reading]

    assert sorted(sum(parts, got)) == list(range(10))
    rest = [int(x) for x in job.iterator(state)]
    assert not set(rest) & set(got)
    assert len(set(rest)) == len(rest)

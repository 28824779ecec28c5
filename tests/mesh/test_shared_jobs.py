"""Readers of a real mesh: who takes what, when some leave in the middle."""

import threading
from collections import Counter
from random import Random

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from tests.mesh.drivers import each


def job(cluster, name, elements, payload=0):
    dataset = Dataset.range(elements)
    if payload:
        dataset = dataset.map(lambda i: (i, np.zeros(payload, np.uint8)))
    return dataset.distribute("distributed_epoch", cluster.target, job_name=name)


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(4))
def test_what_a_reader_that_leaves_did_not_take_goes_to_the_others(cluster, seed):
    chance = Random(seed)
    size, payload = chance.choice([(4000, 0), (600, 20_000)])
    name = f"leavers{seed}"
    quotas = [chance.randint(0, 200), chance.randint(0, 400), None]
    # One that came when the others have left would be told that the job is used.
    all_came = threading.Barrier(len(quotas))

    def read(quota):
        taken = []
        with iter(job(cluster, name, size, payload)) as it:
            all_came.wait(60)
            while quota is None or len(taken) < quota:
                element = next(it, None)
                if element is None:
                    break
                taken.append(int(element[0] if payload else element))

        return taken

    assert Counter(sum(each(read, quotas), [])) == Counter(range(size))


def test_a_limit_in_frames_works_with_real_workers(cluster):
    dataset = Dataset.range(500).map(lambda i: np.full(1000, i))
    far = dataset.distribute("distributed_epoch", cluster.target, max_outstanding_requests=1)

    assert sorted(int(x[0]) for x in far) == list(range(500))


def test_endless_repeat_of_a_shared_job_goes_on(cluster):
    with iter(job(cluster, "endless", 7).repeat()) as it:
        got = [int(next(it)) for _ in range(21)]

    assert [sorted(got[i : i + 7]) for i in (0, 7, 14)] == [list(range(7))] * 3

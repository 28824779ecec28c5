"""What does not depend on the machine: calls, copies and wake-ups, counted over a whole pass."""

import json

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock.wire.worker import WorkerClient

ELEMENTS = 500_000


def status(kind, address):
    async def ask():
        async with connect(address) as channel:
            return json.loads(await kind(channel).status())

    with LoopThread.shared() as loop:
        return loop.run(ask(), 10)


@pytest.fixture(scope="module")
def counted(clusters):
    """The counters of a dispatcher and its worker after one pass over many scalars."""
    with clusters.own(workers=1) as cluster:
        far = Dataset.range(ELEMENTS).distribute("distributed_epoch", cluster.target)
        assert sum(1 for _ in far) == ELEMENTS
        return (
            status(DispatcherClient, cluster.dispatcher.address),
            status(WorkerClient, cluster.workers[0].address),
        )


def test_elements_travel_in_frames_and_each_frame_is_copied_or_lent_once(counted):
    _, worker = counted

    assert worker["elements_sent"] == worker["elements_made"] == ELEMENTS
    assert worker["frames_sent"] < ELEMENTS / 2000
    assert worker["copies"] + worker["lent"] == worker["frames_sent"]


def test_the_worker_wakes_up_a_few_times_a_frame_and_never_per_element(counted):
    _, worker = counted

    assert worker["wakes"] <= 3 * worker["frames_made"] + 20


def test_the_dispatcher_hears_a_few_times_a_pass_and_never_per_element(counted):
    dispatcher, _ = counted
    counts = dispatcher["counts"]

    assert counts["split_requests"] <= 40
    assert counts["worker_heartbeats"] + counts["reader_heartbeats"] <= 40
    assert counts["facts"] <= 100


def test_the_account_of_a_pass_balances(counted):
    dispatcher, _ = counted
    (iteration,) = dispatcher["iterations"]

    assert iteration["finished"]
    assert iteration["account"]["produced"] == iteration["account"]["acked"] == ELEMENTS
    assert iteration["account"]["units"] == ELEMENTS


def test_big_arrays_are_views_of_what_arrived(cluster):
    block = np.arange(2**19, dtype=np.int64)
    far = Dataset.range(3).map(lambda i: block + i)

    got = list(far.distribute("parallel_epochs", cluster.target, compression=None))

    assert all(array.base is not None and not array.flags.owndata for array in got)

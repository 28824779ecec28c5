"""Frames that readers receive over TCP."""

import os

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock_cluster.local import LocalCluster
from penstock_dispatcher.server import DispatchServer
from penstock_worker.config import WorkerConfig
from penstock_worker.server import WorkerServer

MIB = 1 << 20


def blocks(count, nbytes=MIB):
    return Dataset.range(count).map(lambda x: np.full(nbytes // 8, x, np.int64))


def by_tcp(dataset, cluster):
    return dataset.distribute("distributed_epoch", cluster.target, data_transfer_protocol="tcp")


def test_a_reader_gets_each_element_once_and_leaves_no_thread(cluster, nothing_left):
    with iter(by_tcp(blocks(100), cluster)) as reading:
        got = list(reading)
        assert set(reading.transport.values()) == {"tcp"}

    assert sorted(int(array[0]) for array in got) == list(range(100))
    assert all((array == array[0]).all() for array in got)


def test_elements_of_every_kind_arrive(cluster, mixed):
    build = mixed
    here, far = list(build()), list(by_tcp(build(), cluster))

    assert sorted(map(repr, far)) == sorted(map(repr, here))


def test_frames_may_be_compressed_and_arrays_writable(cluster):
    far = blocks(5).distribute(
        "distributed_epoch",
        cluster.target,
        data_transfer_protocol="tcp",
        compression="LZ4",
        writable=True,
    )
    got = list(far)
    for array in got:
        array += 1

    assert sorted(int(array[0]) for array in got) == [1, 2, 3, 4, 5]


def test_a_forked_process_reads_the_views_and_the_parent_reads_on(cluster):
    with iter(by_tcp(blocks(20), cluster)) as reading:
        first = next(reading)
        child = os.fork()
        if not child:
            os._exit(0 if (first == first[0]).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        rest = list(reading)

    assert sorted(int(array[0]) for array in [first, *rest]) == list(range(20))


def test_a_worker_without_the_port_is_an_error_for_who_insists_and_else_read_by_grpc():
    with (
        DispatchServer() as dispatcher,
        WorkerServer(WorkerConfig(dispatcher_address=dispatcher.target, data_port=None)) as worker,
    ):
        assert worker is not None
        far = Dataset.range(3)
        with pytest.raises(DatasetError, match="Let this host reach the worker's data_port"):
            list(by_tcp(far, dispatcher))
        assert sorted(map(int, far.distribute("distributed_epoch", dispatcher.target))) == [0, 1, 2]


@pytest.mark.slow
def test_what_a_killed_worker_had_sent_comes_once():
    with LocalCluster(workers=2) as cluster:
        with iter(by_tcp(blocks(400), cluster)) as reading:
            got = [int(next(reading)[0]) for _ in range(20)]
            cluster.workers[0].kill()
            got += [int(array[0]) for array in reading]

    assert set(got) == set(range(400))

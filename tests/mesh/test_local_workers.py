"""Workers in the training process, read without a socket."""

import gc
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock_worker import WorkerConfig, WorkerServer
from tests.conftest import faults
from tests.mesh.worker_status import kept_bytes, status_of
from tests.reader.session.opened_sessions import session_of, wait_until


@pytest.fixture
def mine(another):
    """A worker in this process, beside one in a process of its own."""
    with another(workers=1) as cluster:
        with WorkerServer(WorkerConfig(cluster.target)) as worker:
            yield cluster, worker.address
        assert faults(cluster) == {}


def elements(count):
    return Dataset.range(count).map(lambda x: (x, np.full(50, x)))


def test_a_reader_of_local_workers_gets_all_from_the_worker_in_its_process(mine):
    cluster, address = mine
    dataset = elements(3000).distribute(
        "distributed_epoch", cluster.target, target_workers="LOCAL", compression=None
    )
    with iter(dataset) as reading:
        got = list(reading)
        assert reading.transport == {address: "local"}

    assert sorted(int(x) for x, _ in got) == list(range(3000))
    assert all((row == x).all() for x, row in got)
    assert not got[0][1].flags.writeable


def test_each_copy_of_local_workers_only_comes_once(mine, numbers):
    cluster, _ = mine
    far = Dataset.range(500).distribute("parallel_epochs", cluster.target, target_workers="LOCAL")

    assert numbers(far) == list(range(500))
    assert sorted(numbers(far)) == list(range(500)), "a second pass"


def test_by_itself_a_reader_reads_each_worker_in_the_nearest_way(mine, numbers):
    cluster, address = mine
    far = Dataset.range(500).distribute("parallel_epochs", cluster.target)
    with iter(far) as reading:
        assert sorted(numbers(reading)) == sorted([*range(500)] * 2)
        assert reading.transport == {address: "local", cluster.workers[0].address: "shm"}


@pytest.mark.slow
def test_what_is_in_this_process_is_handed_out_first_where_all_is_ready(another, monkeypatch):
    def where(_):
        import os

        return os.environ.get("WHERE", "far")

    with another(workers=1) as cluster:
        monkeypatch.setenv("WHERE", "near")
        with WorkerServer(WorkerConfig(cluster.target)):
            far = Dataset.range(100).map(where).distribute("parallel_epochs", cluster.target)
            with iter(far) as reading:
                tasks = session_of(reading).core.tasks
                wait_until(lambda: [len(task.buffered) for task in tasks.values()] == [100, 100])

                assert list(reading) == ["near"] * 100 + ["far"] * 100


def test_grpc_leads_to_a_worker_in_this_process_too_and_local_to_no_other(mine, numbers, caplog):
    cluster, address = mine
    other = cluster.workers[0].address
    for wanted, by in [("grpc", {address: "grpc", other: "grpc"}), ("local", {address: "local"})]:
        far = Dataset.range(50).distribute(
            "parallel_epochs", cluster.target, data_transfer_protocol=wanted
        )
        with iter(far) as reading:
            assert sorted(numbers(reading)) == sorted([*range(50)] * 2)
            assert reading.transport == {other: "grpc", **by}
    line = f"worker {other} is not read by transport 'local', but by gRPC: worker {other} is not in"
    assert [said for said in caplog.messages if "transport" in said] == [f"{line} this process"]


def test_local_operators_behind_it_lose_nothing(mine):
    cluster, _ = mine
    far = Dataset.range(1001).distribute(
        "distributed_epoch", cluster.target, target_workers="LOCAL"
    )

    batches = list(far.shuffle(20).batch(10).prefetch(2))

    assert sorted(int(x) for batch in batches for x in batch) == list(range(1001))


def test_rounds_are_read_from_a_worker_in_this_process(mine):
    cluster, address = mine
    far = Dataset.range(60).distribute(
        "parallel_epochs", cluster.target, "rounds", consumer_index=0, num_consumers=1
    )
    with iter(far) as reading:
        assert sorted(int(x) for x in reading) == sorted([*range(60)] * 2)
        assert reading.transport[address] == "local"


def test_an_error_of_a_function_looks_as_it_does_from_afar(mine):
    cluster, _ = mine

    def refuse(x):
        raise ValueError(f"no {x}")

    dataset = Dataset.range(3).map(refuse)
    with pytest.raises(errors.TransformError, match="no 0"):
        list(dataset.distribute("parallel_epochs", cluster.target, target_workers="LOCAL"))


@pytest.mark.slow
def test_a_worker_that_stops_leaves_its_elements_to_others(mine, numbers):
    cluster, address = mine
    far = Dataset.range(100_000).distribute(
        "distributed_epoch", cluster.target, max_outstanding_requests=2
    )
    # While it waits here for its elements to be acknowledged, this thread cannot do so.
    with WorkerServer(WorkerConfig(cluster.target, drain=0.5)) as leaving:
        reading = iter(far)
        got = [int(next(reading)) for _ in range(10_000)]
        leaving.stop()
        got += numbers(reading)

    assert sorted(got) == list(range(100_000))


def test_without_a_worker_in_this_process_there_is_nothing_to_read_locally(cluster):
    far = Dataset.range(3).distribute("distributed_epoch", cluster.target, target_workers="LOCAL")

    with pytest.raises(errors.DatasetError, match=r"there is none: 127.0.0.1:\d+, .*in other proc"):
        iter(far)


@pytest.mark.slow
def test_a_worker_of_others_is_named_by_those_who_wait_for_it(another):
    colocated = WorkerConfig(worker_tags=("COLOCATED",))
    with another(workers=1, worker=colocated) as cluster:
        far = Dataset.range(3).distribute("distributed_epoch", cluster.target, timeout=1.5)

        with pytest.raises(errors.WaitedTooLong, match=r"no reader may read worker .*COLOCATED"):
            list(far)


def test_what_is_read_locally_leaves_no_threads_and_no_files(cluster, nothing_left):
    with WorkerServer(WorkerConfig(cluster.target)):
        far = Dataset.range(5000).distribute(
            "distributed_epoch", cluster.target, target_workers="LOCAL"
        )
        assert len(list(far)) == 5000
        reading = iter(far)
        next(reading)
        reading.close()
    gc.collect()  # the server's thread of gRPC ends with what refers to it in circles


@pytest.mark.slow
def test_what_a_loop_keeps_is_never_overwritten_and_all_of_it_is_given_back(cluster):
    blocks = Dataset.range(200).map(lambda x: np.full(1 << 14, x, np.int64))
    with WorkerServer(WorkerConfig(cluster.target, buffer_bytes=8 << 20)) as worker:
        far = blocks.distribute("distributed_epoch", cluster.target, target_workers="LOCAL")
        with iter(far) as reading:
            kept = [next(reading) for _ in range(40)]
        for reading in (iter(far), iter(far)):
            kept += [next(reading) for _ in range(40)]
            for pid in runners_of_this_process():
                os.kill(pid, signal.SIGKILL)
            kept += reading
        seen = status_of(worker.address)

        assert all((block == block[0]).all() for block in kept)
        assert sorted(int(block[0]) for block in kept[40:]) == sorted([*range(200)] * 2)
        assert seen["lent"] > 0
        assert kept_bytes(worker.address) > 0
        del kept
        wait_until(lambda: gc.collect() is not None and kept_bytes(worker.address) == 0)


def runners_of_this_process():
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            mine = b"--worker" in command and str(os.getpid()).encode() in command
            if mine and (folder / "comm").read_text() == "penstock-runner\n":
                yield int(folder.name)

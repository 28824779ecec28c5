"""Frames that readers on the worker's host look at where they were made."""

import gc
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from tests.mesh.worker_status import kept_bytes
from tests.reader.session.opened_sessions import wait_until

MIB = 1 << 20


def blocks(count, nbytes=MIB):
    return Dataset.range(count).map(lambda x: np.full(nbytes // 8, x, np.int64))


def shared(dataset, cluster, **how):
    how = {"data_transfer_protocol": "shm", **how}
    return dataset.distribute("distributed_epoch", cluster.target, **how)


def whole(arrays):
    """Return the number of each array, all of whose items are that number."""
    assert all((array == array[0]).all() for array in arrays)
    return sorted(int(array[0]) for array in arrays)


def maps():
    with open("/proc/self/maps") as file:
        return sum("penstock-arena" in line for line in file)


def test_by_itself_a_reader_on_the_same_host_shares_memory_and_gets_each_element_once(cluster):
    far = shared(blocks(300), cluster, data_transfer_protocol=None)
    with iter(far) as reading:
        got = [int(array[0]) for array in reading]
        assert set(reading.transport.values()) == {"shm"}

    assert sorted(got) == list(range(300))


def test_grpc_is_used_where_that_is_wanted(cluster):
    with iter(shared(blocks(3), cluster, data_transfer_protocol="grpc")) as reading:
        assert len(list(reading)) == 3
        assert set(reading.transport.values()) == {"grpc"}


@pytest.mark.slow
def test_a_loop_that_keeps_more_than_an_arena_gets_all_and_nothing_is_overwritten(cluster):
    kept = list(shared(blocks(400), cluster))

    assert whole(kept) == list(range(400))


@pytest.mark.slow
def test_what_was_kept_stays_when_the_next_passes_use_the_same_runners(cluster):
    kept = []
    for _ in range(4):
        for array in shared(blocks(60), cluster):
            if array[0] % 3 == 0:
                kept.append(array)

    assert whole(kept) == sorted([*range(0, 60, 3)] * 4)


@pytest.mark.slow
def test_memory_goes_back_with_the_last_view_and_no_file_stays(cluster):
    list(shared(blocks(2), cluster))
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    kept = list(shared(blocks(200), cluster))
    assert maps() > 0
    whole(kept)
    del kept

    wait_until(lambda: gc.collect() is not None and maps() == 0)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= files)


def test_an_element_larger_than_the_arena_is_copied_out(another):
    from penstock_worker import WorkerConfig

    with another(workers=1, worker=WorkerConfig(buffer_bytes=4 * MIB)) as cluster:
        got = list(shared(blocks(12, 6 * MIB), cluster))

    assert whole(got) == list(range(12))


def test_views_stay_readable_when_their_worker_is_killed(another):
    with another(workers=1) as cluster:
        kept = []
        reading = iter(shared(blocks(2000), cluster, timeout=30))
        for _ in range(100):
            kept.append(next(reading))
        cluster.workers[0].kill()
        assert len(set(whole(kept))) == 100
        reading.close()
    assert len(set(whole(kept))) == 100


@pytest.mark.slow
def test_a_runner_that_is_killed_takes_no_view_along_and_all_comes_once(
    another, tmp_path, monkeypatch
):
    def suicide(x):
        if x == 150:
            import os
            import signal
            from pathlib import Path

            marker = Path(os.environ["SHM_MARKER"])
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return np.full(MIB // 8, x, np.int64)

    monkeypatch.setenv("SHM_MARKER", str(tmp_path / "died"))
    with another(workers=1) as cluster:
        kept = list(shared(Dataset.range(300).map(suicide), cluster))

    assert whole(kept) == list(range(300))


@pytest.mark.slow
def test_what_a_killed_reader_looked_at_is_written_again(another):
    with another(workers=1) as cluster:
        script = f"""
import os, signal
from tests.mesh.test_shared_memory import blocks
far = blocks(40).distribute("parallel_epochs", {cluster.target!r}, data_transfer_protocol="shm")
kept = list(far)
print(len(kept), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        shown = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
        )
        assert (shown.stdout, shown.returncode) == ("40\n", -signal.SIGKILL)

        wait_until(lambda: kept_bytes(cluster.workers[0].address) == 0)
        assert whole(list(shared(blocks(100), cluster))) == list(range(100))

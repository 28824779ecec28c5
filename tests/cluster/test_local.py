"""A local cluster's processes: how they leave, are killed, come back, and end together."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed
from penstock_cluster import WorkerConfig
from penstock_cluster.local import LocalCluster
from penstock_cluster.member import GRACE
from tests.process_tree import below
from tests.waiting import wait_until


def slow(x):
    time.sleep(0.0005)
    return x


def alive(pids):
    found = set()
    for pid in pids:
        with suppress(OSError):
            if "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                found.add(pid)
    return found


def read(dataset, *, at, do):
    """Read *dataset*; once there are *at* elements, *do* something in another thread."""
    got, longest = [], 0.0
    acting = threading.Thread(target=do)
    last = float("inf")
    for element in dataset:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        got.append(int(element))
        if len(got) == at:
            acting.start()
    acting.join(30)
    assert not acting.is_alive()
    return got, longest


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["distributed_epoch", "parallel_epochs"])
def test_a_worker_that_is_told_to_leave_hands_over_and_nothing_is_made_twice(clusters, policy):
    with clusters.own(workers=2) as cluster:
        worker = cluster.workers[0]
        dataset = Dataset.range(2000).map(slow).distribute(policy, cluster.target)

        got, longest = read(dataset, at=500, do=worker.terminate)

        copies = 2 if policy == "parallel_epochs" else 1
        assert sorted(got) == sorted([*range(2000)] * copies)
        assert longest < 2
        assert not worker.running
        assert worker._process.returncode == 0


@pytest.mark.slow
def test_a_worker_that_was_killed_comes_back_at_its_place(clusters):
    with clusters.own(workers=2) as cluster:
        worker = cluster.workers[1]
        address = worker.address
        dataset = Dataset.range(4000).map(slow).distribute("distributed_epoch", cluster.target)

        def kill_and_restart():
            worker.kill()
            worker.restart()

        got, _ = read(dataset, at=1000, do=kill_and_restart)

        assert sorted(got) == list(range(4000))
        assert worker.address == address
        assert worker.running


@pytest.mark.slow
def test_a_cluster_in_mid_pass_with_stuck_user_code_ends_soon(clusters):
    def stuck(x):
        if x % 1000 == 100:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        return x

    clusters.close()
    cluster = LocalCluster(workers=2)
    cluster.start()
    it = iter(Dataset.range(10_000).map(stuck).distribute("distributed_epoch", cluster.target))
    for _ in range(20):
        next(it)
    members = [*cluster.workers, cluster.dispatcher]
    # One worker may give 20 elements before the other one has a runner.
    wait_until(lambda: len([pid for m in members for pid in (m.pid, *below(m.pid))]) >= 5)
    everybody = [pid for m in members for pid in (m.pid, *below(m.pid))]
    began = time.monotonic()

    cluster.stop()

    # Not a grace for each of the three members: all are told at once.
    assert time.monotonic() - began < 2 * GRACE
    deadline = time.monotonic() + GRACE
    while alive(everybody) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(everybody) == set()
    it.close()
    with pytest.raises(Closed):
        members[0].restart()


def test_terminating_twice_from_two_threads_is_terminating_once(clusters):
    with clusters.own(workers=1) as cluster:
        (worker,) = cluster.workers
        threads = [threading.Thread(target=worker.terminate) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert not any(thread.is_alive() for thread in threads)
        assert not worker.running
        worker.terminate()


@pytest.mark.slow
def test_a_worker_that_does_not_get_rid_of_its_tasks_leaves_at_its_deadline(clusters):
    with clusters.own(workers=1, worker=WorkerConfig(drain=0.5)) as cluster:
        (worker,) = cluster.workers
        it = iter(Dataset.range(100_000).distribute("parallel_epochs", cluster.target))
        next(it)
        began = time.monotonic()

        worker.terminate()  # the loop takes nothing meanwhile

        assert time.monotonic() - began < 2.5
        worker.restart()
        assert sum(1 for _ in it) == 99_999
        assert os.path.exists(cluster.work_dir)


def forked(do):
    """Do this in a forked child, which then ends; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "with", "del"])
def test_a_forked_child_leaves_its_parents_cluster_alone(how):
    cluster = LocalCluster(workers=1)

    def end():
        if how == "stop":
            cluster.stop()
        elif how == "with":
            cluster.__exit__()
        else:
            cluster.__del__()

    with cluster:
        assert forked(end) == 0

        numbers = Dataset.range(4).distribute("distributed_epoch", cluster.target)
        assert sorted(map(int, numbers)) == [0, 1, 2, 3]
        assert cluster.work_dir.exists()
    assert not cluster.work_dir.exists()


def test_a_forked_child_may_stop_its_copy_while_a_thread_of_the_parent_had_the_lock():
    cluster = LocalCluster(workers=0)
    with cluster._lock:
        assert forked(cluster.stop) == 0


def test_nobody_else_can_read_what_is_in_the_work_folder(tmp_path):
    with LocalCluster(workers=1, work_dir=tmp_path / "work") as cluster:
        numbers = Dataset.range(4).distribute("distributed_epoch", cluster.target)
        assert sorted(map(int, numbers)) == [0, 1, 2, 3]

        found = [cluster.work_dir, *cluster.work_dir.rglob("*")]
        assert [path for path in found if path.stat().st_mode & 0o077] == []

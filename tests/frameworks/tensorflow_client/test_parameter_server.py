"""Remote workers of `ParameterServerStrategy` read the mesh, each by itself."""

import json
import os
import re
import signal
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Dataset
from penstock.service import register_dataset
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from tests.frameworks.warm import Program
from tests.free_ports import free_ports

PROGRAM = Path(__file__).parent / "parameter_server_program.py"
COUNT = 1600


def slow(x):
    time.sleep(0.002)
    return x


@pytest.fixture
def own(clusters, tmp_path):
    """A cluster that a test may kill."""
    clusters.close()
    config = DispatcherConfig(worker_timeout=2.0, client_timeout=3.0)
    with LocalCluster(2, work_dir=tmp_path, dispatcher=config) as cluster:
        dataset = Dataset.range(COUNT).map(slow).batch(4)
        register_dataset(cluster.target, dataset, dataset_id="train")
        yield cluster


@contextmanager
def training(target, log):
    """Start a parameter server, two workers and a chief; yield workers and chief."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    cluster = json.dumps({"ps": addresses[:1], "worker": addresses[1:]})
    roles = [("ps", "0"), ("worker", "0"), ("worker", "1"), ("chief", target)]
    processes = [
        Program(PROGRAM, *role, errors=log / f"{role[0]}-{number}.txt", CLUSTER=cluster)
        for number, role in enumerate(roles)
    ]
    try:
        yield processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.close()


def read(chief, half=lambda: None):
    """Return what all steps read; call *half* once when that is a third of it."""
    found, total, called = Counter(), None, False
    for line in chief.stdout:
        what, _, rest = line.partition(" ")
        if what == "read":
            found.update(json.loads(rest))
        if what == "total":
            total = int(rest)
        if not called and sum(found.values()) > COUNT / 3:
            half()
            called = True
    assert called
    assert total == sum(x * count for x, count in found.items())
    return found


def connected(pid, port):
    """Return whether a process has a connection to a port of this host."""
    sockets = {
        match[1]
        for fd in Path(f"/proc/{pid}/fd").iterdir()
        if (match := re.match(r"socket:\[(\d+)\]", os.readlink(fd)))
    }
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    lines += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return any(int(line[2].rpartition(":")[2], 16) == port and line[9] in sockets for line in lines)


def test_every_element_comes_once_and_not_by_the_chief(own, tmp_path):
    ports = [int(worker.address.rpartition(":")[2]) for worker in own.workers]
    who = []

    with training(own.target, tmp_path) as processes:

        def look():
            who.extend(any(connected(one.pid, port) for port in ports) for one in processes)

        found = read(processes[-1], look)

    assert found == dict.fromkeys(range(COUNT), 1)
    assert who == [True, True, False]  # two workers, the chief


def test_the_dispatcher_is_killed_in_the_middle(own, tmp_path):
    def kill():
        own.dispatcher.kill()
        own.dispatcher.restart()

    with training(own.target, tmp_path) as (*_, chief):
        found = read(chief, kill)

    assert found == dict.fromkeys(range(COUNT), 1)


def test_a_worker_of_the_mesh_is_killed_in_the_middle(own, tmp_path):
    with training(own.target, tmp_path) as (*_, chief):
        found = read(chief, lambda: os.kill(own.workers[0].pid, signal.SIGKILL))

    assert set(found) == set(range(COUNT))
    # What it answered in its last second or so is not known to anybody else.
    assert sum(found.values()) - COUNT < 600

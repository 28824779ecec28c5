"""What tests of the worker share."""

import gc
import os
import threading
import time
from operator import gt

import pytest

from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect, listening
from penstock.wire.worker import WorkerClient, worker_handlers
from tests.process_tree import below
from tests.worker.core import random_cluster as random_cluster_module
from tests.worker.fake_peers import FakeDispatcher, FakePool, FakeReader, at_work, until


@pytest.fixture(scope="session", autouse=True)
def _shared_server(shared_server):
    """Dozens of pools are tried here."""


@pytest.fixture
def pool():
    return FakePool()


@pytest.fixture
def dispatcher():
    return FakeDispatcher()


@pytest.fixture(params=["near", "far"])
async def worker(request, pool, dispatcher):
    """A worker at work: called in place, or behind a real port."""
    async with at_work(pool, dispatcher) as worker:
        if request.param == "near":
            yield worker, worker
            return
        line = listening(worker_handlers(worker), host="127.0.0.1", port=0, drain=0)
        async with line as port, connect(f"127.0.0.1:{port}") as channel:
            yield worker, WorkerClient(channel)


@pytest.fixture
async def reader(worker, pool):
    """Makes readers of the worker, and closes them."""
    made = []

    def make(**kwargs):
        made.append(FakeReader(worker[1], pool.size, **kwargs))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
def opened(dispatcher, reader):
    """Has the worker run task 1, and opens a reader of it."""

    async def open_reader(**kwargs):
        dispatcher.assign(1)
        one = reader(**kwargs)
        await one.open()
        return one

    return open_reader


@pytest.fixture(scope="session")
def random_cluster():
    """The module with worlds around a worker's core."""
    return random_cluster_module


@pytest.fixture
def wait():
    return until


@pytest.fixture
def busy():
    """A worker at work with any pool, and a reader of any kind."""
    return at_work, FakeReader


@pytest.fixture(scope="session")
def warm():
    """Have gRPC open the two files that it never closes."""

    async def once():
        async with listening(host="127.0.0.1", port=0, drain=0):
            pass

    with LoopThread.shared() as loop:
        loop.run(once(), 10)


@pytest.fixture
def nothing_left(warm):
    """Fail when a test leaves threads, processes or open files behind."""

    def counts():
        processes = len(below(os.getpid()))
        return threading.active_count(), processes, len(os.listdir("/proc/self/fd"))

    before = counts()
    yield
    deadline = time.monotonic() + 5
    # gRPC's thread ends when the last of its objects goes, and errors hold on to some in circles.
    while gc.collect() >= 0 and any(map(gt, counts(), before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    unacked = [os.readlink(e.path) for e in os.scandir("/proc/self/fd") if os.path.lexists(e.path)]
    assert not any(map(gt, counts(), before)), f"threads, processes or files are left: {unacked}"

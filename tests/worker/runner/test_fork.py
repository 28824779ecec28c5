"""Which server forks the runners of a pool."""

import asyncio
import os
import signal

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Unavailable
from penstock.ipc.child import ONE_THREAD
from penstock.ipc.fork_client import ForkClient
from penstock.runtime import usage
from penstock_worker.runner import fork
from penstock_worker.runner.confinement import FREE
from tests.process_tree import parent


@pytest.fixture
def shared(monkeypatch):
    """A server for the pools of a test alone."""
    server = ForkClient("penstock_worker.runner.fork_child", ["-P"])
    server.start({**os.environb, **ONE_THREAD})
    monkeypatch.setattr(fork, "_shared", [server])
    yield server
    server.close()


async def server_of(workplace, dataset=Dataset.range(5)):
    """Read *dataset*; return the server that its runner came from, and the elements."""
    reading = await workplace.begin(dataset)
    found = parent(reading.runner.pid)
    await reading.end()
    return found, reading.elements


async def test_a_shared_server_forks_runners(shared, working):
    async with working() as workplace:
        server, elements = await server_of(workplace)

        assert server == shared.server_pid
        assert elements == list(range(5))


@pytest.mark.usefixtures("shared")
async def test_what_a_forked_runner_uses_counts_for_its_worker(working):
    async with working() as workplace:
        reading = await workplace.begin(Dataset.range(5))
        assert reading.runner.pid in usage.family(*usage._forked_for_this)
        await reading.end()

    assert not usage._forked_for_this


async def test_without_a_shared_server_a_worker_starts_its_own(monkeypatch, working):
    monkeypatch.setattr(fork, "_shared", [])

    async with working() as workplace:
        server, elements = await server_of(workplace)

        assert parent(server) == os.getpid()
        assert elements == list(range(5))


async def test_a_worker_starts_its_own_server_when_the_shared_one_is_gone(shared, working):
    os.kill(shared.server_pid, signal.SIGKILL)

    async with working() as workplace:
        server, elements = await server_of(workplace)

        assert server != shared.server_pid
        assert parent(server) == os.getpid()
        assert elements == list(range(5))


async def test_all_runners_are_forked_though_the_server_of_the_worker_ends(monkeypatch, working):
    monkeypatch.setattr(fork, "_shared", [])
    async with working() as workplace:
        server, _ = await server_of(workplace)
        os.kill(server, signal.SIGSTOP)
        pending = [asyncio.create_task(server_of(workplace, Dataset.range(n))) for n in (2, 3, 4)]
        await asyncio.sleep(0.1)
        os.kill(server, signal.SIGKILL)

        read = await asyncio.gather(*pending)

    assert [elements for _, elements in read] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]


async def test_a_server_that_ends_before_it_forks_is_named_with_its_status(
    monkeypatch, working, tmp_path
):
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(7)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fork, "_shared", [])

    async with working() as workplace:
        with pytest.raises(Unavailable, match="ended with status 7; the worker's stderr"):
            await workplace.begin(Dataset.range(5))


@pytest.mark.slow
async def test_the_server_of_a_runner_that_may_know_less_than_its_worker_knows_as_little(
    shared, working
):
    """What was in the environment of a process at its start can be read in all its forks."""
    confined = FREE._replace(variables=("PATH",))

    async with working(confinement=confined) as workplace:
        server, _ = await server_of(workplace)

        assert parent(server) == os.getpid()
        assert server != shared.server_pid


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
async def test_runners_have_the_environment_that_their_worker_has_by_now(
    shared, working, monkeypatch, own
):
    def seen(_):
        return ",".join(os.environ.get(name, "-") for name in ("PYTHONPATH", "PENSTOCK_ADDED"))

    if own:
        monkeypatch.setattr(fork, "_shared", [])
    at_first = os.environ.get("PYTHONPATH", "-")
    async with working() as workplace:
        server, before = await server_of(workplace, Dataset.range(1).map(seen))
        monkeypatch.setenv("PENSTOCK_ADDED", "yes")
        monkeypatch.setenv("PYTHONPATH", "/somewhere")
        again, after = await server_of(workplace, Dataset.range(1).map(seen))

    assert (server == shared.server_pid) is not own
    assert (again == server) is own  # a shared server may have modules that read the variables
    assert [str(before[0]), str(after[0])] == [f"{at_first},-", "/somewhere,yes"]

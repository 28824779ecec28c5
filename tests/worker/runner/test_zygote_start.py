"""Where the zygote of a pool comes from."""

import os
import signal

import pytest

from penstock.dataset.dataset import Dataset
from penstock.ipc.child import ONE_THREAD
from penstock.ipc.fork_door import ForkDoor
from penstock.runtime import usage
from penstock_worker.runner import zygote_start
from penstock_worker.runner.confinement import FREE
from tests.process_tree import parent


@pytest.fixture
def door(monkeypatch):
    """A server of zygotes for the pools of a test alone."""
    command = ["-P", "-m", "penstock_worker.runner.preloaded"]
    door = ForkDoor.start(command, {**os.environb, **ONE_THREAD})
    monkeypatch.setattr(zygote_start, "_doors", [door])
    yield door
    door.close()


async def zygote_of(workplace, dataset=Dataset.range(5)):
    """Read *dataset*; return the zygote that its runner came from, and the elements."""
    reading = await workplace.begin(dataset)
    found = parent(reading.runner.pid)
    await reading.end()
    return found, reading.elements


async def test_a_zygote_is_forked_where_there_is_a_door(door, working):
    async with working() as workplace:
        zygote, elements = await zygote_of(workplace)

        assert parent(zygote) == door.server_pid
        assert elements == list(range(5))


@pytest.mark.usefixtures("door")
async def test_what_a_zygote_and_its_runners_use_is_their_workers(working):
    async with working() as workplace:
        reading = await workplace.begin(Dataset.range(5))
        runner = reading.runner.pid
        assert {parent(runner), runner} <= set(usage.family(*usage._forked_for_this))
        await reading.end()

    assert not usage._forked_for_this


async def test_without_a_door_a_zygote_is_started(monkeypatch, working):
    monkeypatch.setattr(zygote_start, "_doors", [])

    async with working() as workplace:
        zygote, elements = await zygote_of(workplace)

        assert parent(zygote) == os.getpid()
        assert elements == list(range(5))


async def test_a_zygote_is_started_when_the_server_is_gone(door, working):
    os.kill(door.server_pid, signal.SIGKILL)

    async with working() as workplace:
        zygote, elements = await zygote_of(workplace)

        assert parent(zygote) == os.getpid()
        assert elements == list(range(5))


@pytest.mark.slow
async def test_a_zygote_that_may_know_less_than_its_worker_was_never_a_fork(door, working):
    """What was in the environment of a process at its start can be read in all its forks."""
    confined = FREE._replace(variables=("PATH",))

    async with working(confinement=confined) as workplace:
        zygote, _ = await zygote_of(workplace)

        assert parent(zygote) == os.getpid()


async def test_runners_have_the_environment_that_their_worker_has_by_now(
    door, working, monkeypatch
):
    def seen(_):
        return ",".join(os.environ.get(name, "-") for name in ("PYTHONPATH", "PENSTOCK_ADDED"))

    at_first = os.environ.get("PYTHONPATH", "-")
    async with working() as workplace:
        zygote, before = await zygote_of(workplace, Dataset.range(1).map(seen))
        monkeypatch.setenv("PENSTOCK_ADDED", "yes")
        monkeypatch.setenv("PYTHONPATH", "/somewhere")
        again, after = await zygote_of(workplace, Dataset.range(1).map(seen))

    assert again == zygote
    assert [str(before[0]), str(after[0])] == [f"{at_first},-", "/somewhere,yes"]

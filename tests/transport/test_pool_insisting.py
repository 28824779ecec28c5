"""What insists on shared memory waits for a worker that was killed, and for no other."""

from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.errors import DatasetError, Unavailable
from penstock.protocol.nearness import KnownWorker, WorkerProfile
from penstock.runtime.linux import boot_id
from penstock.transport import pool
from penstock.transport.pool import PATIENCE, TransportPool
from penstock.wire.connection import listening
from penstock.wire.worker import WorkerApi, worker_handlers

LIFE = 7


class AnsweringWorker(WorkerApi):
    """Says which life of it answers."""

    def __init__(self, incarnation):
        self._said = b'{"worker":"w","incarnation":%d}' % incarnation

    async def status(self):
        return self._said


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(at=100.0)
    monkeypatch.setattr(pool, "clock", SimpleNamespace(now=lambda: clock.at))
    return clock


@pytest.fixture
async def at():
    """Starts a worker that answers on a port, and returns how readers know it: by no socket."""
    async with AsyncExitStack() as running:

        async def start(answers):
            handlers = worker_handlers(AnsweringWorker(answers))
            line = listening(handlers, host="127.0.0.1", port=0, drain=0)
            port = await running.enter_async_context(line)
            return replace(gone(), address=f"127.0.0.1:{port}")

        yield start


def gone():
    profile = WorkerProfile("h", ("grpc", "shm"), boot_id=boot_id(), shm_socket="/no")
    return KnownWorker("127.0.0.1:9", LIFE, profile)


async def is_refused(worker, clock):
    async with TransportPool("shm") as transports:
        with pytest.raises(Unavailable, match="/no cannot be reached"):
            await transports.to(worker)
        clock.at += 2 * PATIENCE
        await transports.to(worker)


async def test_a_worker_that_is_gone_is_waited_for_as_long_as_its_tasks_are_there(clock):
    with pytest.raises(Unavailable, match="/no cannot be reached"):
        await is_refused(gone(), clock)


async def test_another_life_at_its_address_is_not_it(clock, at):
    with pytest.raises(Unavailable, match="/no cannot be reached"):
        await is_refused(await at(answers=LIFE + 1), clock)


async def test_a_worker_that_lives_and_cannot_be_read_so_is_an_error(clock, at):
    with pytest.raises(DatasetError, match="'shm' reads no other way, and worker 127"):
        await is_refused(await at(answers=LIFE), clock)

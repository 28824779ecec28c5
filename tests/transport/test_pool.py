"""One transport to each worker, as long as it is needed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from penstock.transport import pool
from penstock.transport.pool import TransportPool


@pytest.fixture
def channels(monkeypatch):
    """What happened to channels, in order."""
    seen = []

    @asynccontextmanager
    async def connect(worker):
        seen.append(("open", worker))
        await asyncio.sleep(0)
        yield f"channel to {worker}"
        seen.append(("close", worker))

    monkeypatch.setattr(pool, "connect", connect)
    monkeypatch.setattr(pool, "WorkerClient", lambda channel: [channel])
    return seen


async def test_all_tasks_of_a_worker_share_a_transport(channels):
    async with TransportPool() as transports:
        one, other, again = await asyncio.gather(*map(transports.to, ("a", "b", "a")))

        assert one is again
        assert other == ["channel to b"]
    assert channels[:2] == [("open", "a"), ("open", "b")]
    assert sorted(channels[2:]) == [("close", "a"), ("close", "b")]


async def test_a_worker_that_went_has_its_transport_closed_and_gets_another(channels):
    async with TransportPool() as transports:
        before, _ = await transports.to("a"), await transports.to("b")

        await transports.keep({"b"})
        assert channels[-1] == ("close", "a")

        assert await transports.to("a") is not before

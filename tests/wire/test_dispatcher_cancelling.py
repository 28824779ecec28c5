"""A task that is cancelled while its call fails ends: the failure does not hide that."""

import asyncio
import socket
from contextlib import aclosing, suppress

import pytest

from penstock.errors import PenstockError, Refused
from penstock.protocol.control import WorkerHeartbeat
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient


@pytest.fixture
async def client():
    """A client of nobody."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with connect(f"127.0.0.1:{free.getsockname()[1]}", patience=0.1) as channel:
            yield DispatcherClient(channel)


async def unary(client):
    await client.status()


async def stream(client):
    async def signals():
        yield WorkerHeartbeat("w:1", 1, 0)
        await asyncio.Event().wait()

    async with aclosing(client.worker_control(signals())) as orders:
        async for _ in orders:
            pass


@pytest.mark.parametrize("call", [unary, stream])
async def test_who_asks_again_and_again_ends_when_cancelled(client, call):
    async def ask():
        while True:
            with suppress(PenstockError):
                await call(client)
            await asyncio.sleep(0)

    for i in range(150):
        asking = asyncio.create_task(ask())
        await asyncio.sleep(i * 2e-5)
        asking.cancel()
        await asyncio.wait({asking}, timeout=5)

        assert asking.cancelled()


async def test_who_is_cancelled_as_its_requests_fail_ends():
    def failing(due):
        async def signals():
            await due.wait()
            raise Refused("no more")
            yield

        return signals()

    async def ask(client, due):
        while True:
            with suppress(PenstockError):
                async with aclosing(client.worker_control(failing(due))) as orders:
                    async for _ in orders:
                        pass
            await asyncio.Event().wait()

    with socket.create_server(("127.0.0.1", 0)) as mute:  # it takes connections, and says nothing
        async with connect(f"127.0.0.1:{mute.getsockname()[1]}") as channel:
            for turns in range(10):
                due = asyncio.Event()
                asking = asyncio.create_task(ask(DispatcherClient(channel), due))
                await asyncio.sleep(0.01)
                due.set()
                for _ in range(turns):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.wait({asking}, timeout=1)

                assert asking.cancelled(), turns

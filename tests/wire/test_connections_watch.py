"""A flood of connections from one address does not keep others out, nor those it has within."""

import asyncio
import contextlib
import socket

import grpc
import pytest

from penstock.credentials.access import Identity
from penstock.credentials.entrance import Entrance, Security
from penstock.credentials.guard import OpenGuard
from penstock.credentials.limits import limits_of
from penstock.errors import Overloaded
from penstock.wire import connections
from penstock.wire.connection import connect, listening
from penstock.wire.rpc import UnaryRpc
from penstock.wire.worker import HEALTH
from tests.wire import raw_http2

HERE = "127.0.0.1"
ASK = UnaryRpc("/penstock.v1.Dispatcher/Status", HEALTH.request, HEALTH.reply)


def answering(how):
    """Return a handler of `ASK`."""
    method = grpc.unary_unary_rpc_method_handler(how)
    return grpc.method_handlers_generic_handler("penstock.v1.Dispatcher", {"Status": method})


async def nothing(_data, _context):
    return b""


class Named(OpenGuard):
    """Knows everybody by what they show."""

    def admit(self, path, shown):
        return Identity("ann", frozenset()) if "Health" not in path else None


def open_to(guard=None, handlers=(), **bounds):
    entrance = Entrance(Security.INSECURE, guard or OpenGuard(), limits_of("dispatcher", bounds))
    return listening(*handlers, host=HERE, port=0, drain=0, entrance=entrance)


@pytest.fixture
def flood():
    """Yield what opens connections from an address, and says *first* on each."""
    with contextlib.ExitStack() as opened:

        def flooding(port, count, source="127.0.0.6", first=b""):
            made = []
            for _ in range(count):
                sock = socket.create_connection((HERE, port), source_address=(source, 0))
                opened.enter_context(sock)
                sock.setblocking(False)
                with contextlib.suppress(OSError):
                    sock.sendall(first)
                made.append(sock)
            return made

        yield flooding


async def left(socks, most):
    """Return how many of *socks* the far side keeps open, once these are at most *most*."""
    loop, open_ones = asyncio.get_running_loop(), set(socks)

    async def read(sock):
        with contextlib.suppress(OSError):
            while await loop.sock_recv(sock, 1 << 16):
                pass
        open_ones.discard(sock)

    reading = [asyncio.create_task(read(sock)) for sock in socks]
    try:
        async with asyncio.timeout(20):
            while len(open_ones) > most:
                await asyncio.wait(
                    [t for t in reading if not t.done()], return_when=asyncio.FIRST_COMPLETED
                )
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    return len(open_ones)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "first",
    [b"", raw_http2.PREFACE, raw_http2.PREFACE + raw_http2.settings()],
    ids=["connected", "preface", "settings"],
)
async def test_of_half_open_ones_the_oldest_are_closed_and_others_served(flood, caplog, first):
    async with open_to(max_connections_per_identity=30) as port, connect(f"{HERE}:{port}") as kept:
        assert await HEALTH.call(kept, b"", 5)
        socks = flood(port, 300, first=first)
        assert await left(socks, 30) >= 20
        assert await HEALTH.call(kept, b"", 5)
        async with connect(f"{HERE}:{port}") as new:
            assert await HEALTH.call(new, b"", 5)

    told = [r.getMessage() for r in caplog.records]
    assert any("127.0.0.6" in text and "max_connections_per_identity" in text for text in told)


async def test_one_that_showed_who_it_is_stays_in_a_flood_from_its_own_address(flood):
    line = open_to(Named(), [answering(nothing)], max_connections_per_identity=30)
    async with line as port, connect(f"{HERE}:{port}") as kept:
        await ASK.call(kept, b"", 5)
        await left(flood(port, 300, HERE), 30)
        assert kept.unused  # it is connected still
        await ASK.call(kept, b"", 5)


async def test_more_connections_of_one_identity_than_it_may_have_are_told_so(monkeypatch):
    monkeypatch.setattr(connections, "EVERY", 0.01)

    line = open_to(Named(), [answering(nothing)], max_connections_per_identity=2)
    async with line as port, contextlib.AsyncExitStack() as held:
        mine = [await held.enter_async_context(connect(f"{HERE}:{port}")) for _ in range(3)]
        for channel in mine[:2]:
            await ASK.call(channel, b"", 5)
        with pytest.raises(Overloaded, match="ann has 2 connections.*max_connections_per_identity"):
            await ASK.call(mine[2], b"", 5)
        await mine[0].aclose()
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(Overloaded):
                    await ASK.call(mine[2], b"", 5)
                    break
                await asyncio.sleep(0.01)


async def test_the_largest_bound_that_may_be_set_is_one_that_grpc_knows():
    async with (
        open_to(Named(), [answering(nothing)], max_calls_per_identity=2**31 - 1) as port,
        connect(f"{HERE}:{port}") as channel,
    ):
        await ASK.call(channel, b"", 5)


async def test_answers_that_nobody_takes_are_counted_until_the_connection_is_gone(flood):
    answers = 0

    async def large(_data, _context):
        nonlocal answers
        answers += 1
        return bytes(1 << 20)

    async with open_to(Named(), [answering(large)], max_calls_per_identity=4) as port:
        hello = raw_http2.PREFACE + raw_http2.settings(window=0)
        calls = [raw_http2.call(2 * k + 1, ASK.path) for k in range(6)]
        (silent,) = flood(port, 1, HERE, hello + b"".join(calls))
        async with connect(f"{HERE}:{port}") as channel, asyncio.timeout(20):
            while answers < 4:
                await asyncio.sleep(0.01)
            with pytest.raises(Overloaded, match="max_calls_per_identity"):
                await ASK.call(channel, b"", 5)
            silent.close()
            while True:
                with contextlib.suppress(Overloaded):
                    await ASK.call(channel, b"", 5)
                    break
                await asyncio.sleep(0.01)

"""A guard looks at each call, of each kind, before anything of it is read."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from penstock.credentials.access import Identity
from penstock.credentials.caller import LocalCaller
from penstock.credentials.entrance import Entrance, Security
from penstock.credentials.limits import limits_of
from penstock.errors import Overloaded, PenstockError, Refused, Unauthenticated
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from penstock.wire.rpc import UnaryRpc
from penstock.wire.worker import HEALTH


class Recording:
    """A guard that admits what shows *wanted*, and notes what it saw."""

    certificates = False

    def __init__(self, wanted):
        self.wanted, self.seen = wanted, []

    def admit(self, path, shown):
        self.seen.append((path.rpartition("/")[2], shown))
        if shown != self.wanted:
            raise Unauthenticated(f"{path}: not {shown!r}")
        return Identity(f"who shows {shown!r}", frozenset())


class Shows(LocalCaller):
    def __init__(self, what):
        self.what = what

    def shown(self, _host, _port):
        return self.what


class Api:
    called = 0

    async def status(self):
        self.called += 1
        return b"{}"

    async def reader_control(self, heartbeats):
        self.called += 1
        async for _ in heartbeats:
            yield None

    worker_control = reader_control

    def __getattr__(self, _name):
        return self.status


async def refused(client):
    """Call a unary method and a stream; return both errors."""
    with pytest.raises(Unauthenticated) as unary:
        await client.status()
    with pytest.raises(Unauthenticated) as stream:
        async for _ in client.reader_control(nothing()):
            pass
    return unary.value, stream.value


async def nothing():
    return
    yield


async def test_who_shows_nothing_or_something_else_is_refused_unary_and_stream():
    api, guard = Api(), Recording("mine")
    line = listening(
        dispatcher_handlers(api),
        host="127.0.0.1",
        port=0,
        drain=0,
        entrance=Entrance(Security.LOCAL, guard),
    )
    async with line as port:
        for what in ("", "theirs"):
            async with connect(f"127.0.0.1:{port}", caller=Shows(what)) as channel:
                unary, stream = await refused(DispatcherClient(channel))
                assert "Dispatcher/Status" in str(unary)
                assert "Dispatcher/ReaderControl" in str(stream)
                with pytest.raises(Unauthenticated):
                    await HEALTH.call(channel, b"", 5)
        assert api.called == 0
        async with connect(f"127.0.0.1:{port}", caller=Shows("mine")) as channel:
            assert await DispatcherClient(channel).status() == b"{}"
    assert ("Status", "theirs") in guard.seen
    assert ("Check", "") in guard.seen


async def test_a_status_code_says_it_to_tools_that_look_from_outside():
    line = listening(
        dispatcher_handlers(Api()),
        host="127.0.0.1",
        port=0,
        drain=0,
        entrance=Entrance(Security.LOCAL, Recording("mine")),
    )
    async with line as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/penstock.v1.Dispatcher/Status")(b"")

    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_method_that_is_not_there_is_said_to_be_missing():
    line = listening(
        host="127.0.0.1",
        port=0,
        drain=0,
        entrance=Entrance(Security.LOCAL, Recording("mine")),
    )
    unknown = UnaryRpc("/penstock.v1.Dispatcher/New", HEALTH.request, HEALTH.reply)
    async with line as port, connect(f"127.0.0.1:{port}", caller=Shows("")) as channel:
        with pytest.raises(Refused, match="does not know") as raised:
            await unknown.call(channel, b"", 5)

    assert isinstance(raised.value, PenstockError)


async def test_a_port_that_was_any_is_told_to_the_guard():
    entrance = Entrance(Security.LOCAL, Recording(""))
    async with listening(host="127.0.0.1", port=0, drain=0, entrance=entrance) as port:
        assert entrance.port() == port


@asynccontextmanager
async def bounded(api, **most):
    """Serve *api* with bounds; yield a client."""
    line = listening(
        dispatcher_handlers(api),
        host="127.0.0.1",
        port=0,
        drain=0,
        entrance=Entrance(Security.LOCAL, Recording("mine"), limits_of("dispatcher", most)),
    )
    async with line as port, connect(f"127.0.0.1:{port}", caller=Shows("mine")) as channel:
        yield DispatcherClient(channel)


class Waiting(Api):
    """Answers when it is told to."""

    def __init__(self):
        self.here, self.answer = asyncio.Semaphore(0), asyncio.Event()

    async def status(self):
        self.here.release()
        await self.answer.wait()
        return b"{}"


@pytest.mark.parametrize("bound", ["max_calls", "max_calls_per_identity"])
async def test_more_calls_at_once_than_are_allowed_are_refused_by_the_name_of_the_bound(bound):
    api = Waiting()
    async with bounded(api, **{bound: 3}) as client:
        calls = [asyncio.create_task(client.status()) for _ in range(3)]
        for _ in calls:
            await api.here.acquire()
        with pytest.raises(Overloaded, match=rf"\b{bound}\b"):
            await client.status()

        api.answer.set()
        assert await asyncio.gather(*calls) == [b"{}"] * 3
        assert await client.status() == b"{}"  # there is room again

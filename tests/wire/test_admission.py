"""A guard looks at each call, of each kind, before anything of it is read."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from penstock.credentials.access import TABLE
from penstock.credentials.caller import LocalCaller, caller_with
from penstock.credentials.entrance import Entrance, Security, entrance_of
from penstock.credentials.folder import load_client
from penstock.credentials.roles import AccessRole, Identity
from penstock.errors import Overloaded, PenstockError, Refused, Unauthenticated, UnknownDataset
from penstock.wire import tensorflow
from penstock.wire.admission import OpenCalls
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from penstock.wire.preemption import preemption_handlers
from penstock.wire.rpc import UnaryRpc
from penstock.wire.worker import HEALTH, worker_handlers
from tests.credentials.keyring import made


class Recording:
    """A guard that admits what shows *wanted*, and notes what it saw."""

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
        entrance=Entrance(Security.LOCAL, Recording("mine"), **most),
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


def test_who_has_nothing_open_is_not_kept_in_mind():
    calls = OpenCalls(2)
    with calls.held("ann"), calls.held("ann"), calls.held("bob"):
        assert len(calls) == 2

    assert len(calls) == 0


class Anything:
    """Answers every method with an error that only one who was let in can see."""

    def __getattr__(self, _name):
        return self.answer

    async def answer(self, *_):
        raise UnknownDataset("let in")


class AnyStreams(Anything):
    async def read(self, _requests):
        raise UnknownDataset("let in")
        yield

    worker_control = reader_control = read


async def said(channel, path, token):
    """Return the status code of a call of *path*, of whichever kind."""
    metadata = (("penstock-token", token),) if token else ()
    try:
        if path.endswith(("Control", "/Read")):
            call = channel.inner.stream_stream(path)(metadata=metadata)
            await call.done_writing()
            await call.read()
            return await call.code()
        await channel.inner.unary_unary(path)(b"", metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_each_method_of_a_real_server_is_for_its_roles_and_for_nobody_without_a_token(
    tmp_path,
):
    keys = made(tmp_path / "keys")
    entrance = entrance_of("127.0.0.1", str(keys / "dispatcher"), insecure=False)
    handlers = [
        dispatcher_handlers(AnyStreams()),
        worker_handlers(AnyStreams()),
        preemption_handlers(lambda _: 1 / 0),
        *tensorflow.dispatcher_handlers(Anything()),
        tensorflow.worker_handlers(Anything().answer),
    ]
    tokens = {role: load_client(keys / role.value).token for role in AccessRole} | {None: ""}
    refusals = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
    watched = "/grpc.health.v1.Health/Watch"  # it never ends
    who = caller_with(str(keys / "reader"))
    async with (
        listening(*handlers, host="127.0.0.1", port=0, drain=0, entrance=entrance) as port,
        connect(f"127.0.0.1:{port}", caller=who) as channel,
    ):
        for path in (path for path in TABLE.keys() - {watched} if path.startswith("/")):
            for role, token in tokens.items():
                code = await said(channel, path, token)
                if TABLE[path].anybody or role in TABLE[path].roles:
                    assert code not in refusals, (path, role)
                elif role is None:
                    assert code is grpc.StatusCode.UNAUTHENTICATED, path
                else:
                    assert code is grpc.StatusCode.PERMISSION_DENIED, (path, role)

import asyncio
import socket
import time
from contextlib import aclosing, asynccontextmanager, closing
from datetime import UTC, datetime

import grpc
import pytest

from penstock.credentials import authority
from penstock.credentials.entrance import Entrance, Security
from penstock.credentials.folder import LOOK, WatchedFolder, load_service
from penstock.credentials.guard import OpenGuard
from penstock.credentials.limits import limits_of
from penstock.errors import ConfigError, Refused, Unavailable, VersionMismatch, WaitedTooLong
from penstock.protocol.data import Recall, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.wire import connection
from penstock.wire.connection import ShownCertificate, connect, listening
from penstock.wire.status import Status
from penstock.wire.worker import HEALTH, WorkerClient, encode_reply, worker_handlers
from tests.credentials.keyring import made
from tests.free_ports import free_port
from tests.wire.foreign_servers import stranger_that_says

OPEN = Subscribe(1, 5, 1, 2, AckedSet(3), RangeSet(), 1 << 20)


async def one_request():
    yield OPEN
    await asyncio.Event().wait()


class PatientWorker:
    """Sends one message, and goes on until it is told to stop."""

    def __init__(self):
        self.stopped = asyncio.Event()
        self.calls = 0

    async def read(self, requests):
        await anext(requests)
        try:
            yield encode_reply(Recall(5, 1))
            await asyncio.Event().wait()
        finally:
            self.stopped.set()

    async def status(self):
        self.calls += 1
        await asyncio.sleep(0.05)
        return b"{}"


@asynccontextmanager
async def client_of(address, *, timeout=5.0, patience=5.0):
    async with connect(address, patience=patience) as channel:
        yield WorkerClient(channel, timeout=timeout)


def serve(api, **changes):
    return listening(
        worker_handlers(api), **{"host": "127.0.0.1", "port": 0, "drain": 0.0, **changes}
    )


async def read_one(client):
    async with aclosing(client.read(one_request())) as replies:
        return await anext(replies)


async def attempts(client):
    """Try both ways of calling; return what was raised."""
    with pytest.raises((Unavailable, Refused)) as unary:
        await client.status()
    with pytest.raises((Unavailable, Refused)) as stream:
        await read_one(client)
    return [unary.value, stream.value]


# --- nobody there, or somebody else ---


async def test_an_absent_service_is_unavailable_at_once_and_named():
    address = f"127.0.0.1:{free_port()}"
    start = time.monotonic()

    async with client_of(address) as client:
        raised = await attempts(client)

    assert [type(each) for each in raised] == [Unavailable, Unavailable]
    assert all(address in str(each) for each in raised)
    assert time.monotonic() - start < 2


async def test_a_name_that_nobody_has_is_unavailable():
    async with client_of("no-such-host.invalid:1", timeout=3) as client:
        with pytest.raises(Unavailable, match="no-such-host"):
            await client.status()


async def test_a_service_that_never_speaks_is_unavailable_within_the_timeout():
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        start = time.monotonic()

        async with client_of(address, timeout=0.3, patience=0.5) as client:
            raised = await attempts(client)

    assert isinstance(raised[0], WaitedTooLong)
    assert "0.3 s" in str(raised[0])
    assert all(address in str(each) for each in raised)
    assert time.monotonic() - start < 4


async def test_a_web_server_is_no_service():
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    with stranger_that_says(answer) as address:
        async with client_of(address, timeout=3) as client:
            raised = await attempts(client)

    assert all(isinstance(each, Unavailable) and address in str(each) for each in raised)


async def test_another_grpc_service_is_told_from_ours():
    foreign = grpc.method_handlers_generic_handler("somebody.Else", {})

    async with (
        listening(foreign, host="127.0.0.1", port=0, drain=0) as port,
        client_of(f"127.0.0.1:{port}") as client,
    ):
        raised = await attempts(client)

    assert [type(each) for each in raised] == [Refused, Refused]
    assert all("does not know /penstock.v1.Worker/" in str(each) for each in raised)


def babbling(kind):
    async def status(_request, _context):
        return b"\xff\xff"

    async def read(_requests, _context):
        yield b"\xff\xff"

    methods = {
        "Status": grpc.unary_unary_rpc_method_handler(status),
        "Read": grpc.stream_stream_rpc_method_handler(read),
    }
    return grpc.method_handlers_generic_handler(kind, methods)


async def test_answers_that_are_no_messages_are_refused():
    async with (
        listening(babbling("penstock.v1.Worker"), host="127.0.0.1", port=0, drain=0) as port,
        client_of(f"127.0.0.1:{port}") as client,
    ):
        raised = await attempts(client)

    assert [type(each) for each in raised] == [VersionMismatch, VersionMismatch]


async def test_requests_that_are_no_messages_are_refused_by_the_service():
    async with serve(PatientWorker()) as port, connect(f"127.0.0.1:{port}") as channel:
        call = channel.inner.stream_stream("/penstock.v1.Worker/Read")()
        await call.write(b"\xff\xff")

        with pytest.raises(grpc.aio.AioRpcError, match="no ReadRequest"):
            await call.read()


# --- ports ---


async def test_a_port_in_use_is_named():
    async with serve(PatientWorker()) as port:
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serve(PatientWorker(), port=port):
                pass


async def test_a_host_of_another_machine_is_named():
    with pytest.raises(ConfigError, match="192.0.2.1:0"):
        async with serve(PatientWorker(), host="192.0.2.1"):
            pass


async def test_an_ipv6_host_needs_no_brackets():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    async with serve(PatientWorker(), host="::1") as port, client_of(f"[::1]:{port}") as client:
        assert await client.status() == b"{}"


async def test_a_port_can_be_had_again_at_once():
    async with serve(PatientWorker()) as port, client_of(f"127.0.0.1:{port}") as client:
        assert await client.status() == b"{}"

    async with serve(PatientWorker(), port=port) as again:
        assert again == port


# --- hanging up ---


async def test_calls_under_way_get_time_to_end():
    api = PatientWorker()
    async with serve(api, drain=5) as port:
        client_block = client_of(f"127.0.0.1:{port}")
        client = await client_block.__aenter__()
        call = asyncio.create_task(client.status())
        while not api.calls:
            await asyncio.sleep(0)

    assert await call == b"{}"
    await client_block.__aexit__(None, None, None)


async def test_a_stream_under_way_is_cut_behind_the_drain_and_its_reader_told():
    api = PatientWorker()
    start = time.monotonic()
    async with client_block(api, drain=0.2) as (client, leave):
        async with aclosing(client.read(one_request())) as replies:
            await anext(replies)
            leaving = asyncio.create_task(leave())

            with pytest.raises(Unavailable, match="127.0.0.1"):
                await anext(replies)
            await leaving
        await api.stopped.wait()

    assert time.monotonic() - start < 1


@asynccontextmanager
async def client_block(api, *, drain):
    """Yield a client, and what makes its service leave."""
    block = serve(api, drain=drain)
    port = await block.__aenter__()

    async def leave():
        await block.__aexit__(None, None, None)

    async with client_of(f"127.0.0.1:{port}") as client:
        yield client, leave


async def test_a_client_that_vanishes_ends_its_streams_on_the_service():
    api = PatientWorker()
    async with serve(api) as port:
        async with client_of(f"127.0.0.1:{port}") as client:
            replies = client.read(one_request())
            await anext(replies)

        async with asyncio.timeout(2):
            await api.stopped.wait()
        with pytest.raises(Unavailable, match="hung up"):
            await anext(replies)


async def test_closing_the_line_ends_a_call_that_another_task_waits_for():
    api = PatientWorker()
    async with serve(api) as port:
        async with client_of(f"127.0.0.1:{port}") as client:
            waiting = asyncio.create_task(client.status())
            while not api.calls:
                await asyncio.sleep(0)

        with pytest.raises(Unavailable, match="hung up"):
            await waiting


async def test_one_client_hanging_up_leaves_another_of_the_same_service_alone():
    async with serve(PatientWorker()) as port, client_of(f"127.0.0.1:{port}") as stays:
        async with client_of(f"127.0.0.1:{port}") as leaves:
            await leaves.status()

        assert await stays.status() == b"{}"


async def test_a_line_finds_a_service_that_came_back():
    async with serve(PatientWorker()) as port:
        pass
    async with client_of(f"127.0.0.1:{port}") as client:
        with pytest.raises(Unavailable):
            await client.status()

        async with serve(PatientWorker(), port=port), asyncio.timeout(5):
            while True:
                try:
                    assert await client.status() == b"{}"
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{free_port()}")

    async with serve(PatientWorker()) as port, client_of(f"127.0.0.1:{port}") as client:
        assert await client.status() == b"{}"


async def _closed_within(sock, seconds):
    """Return whether the far side closes *sock*, whatever it says before."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            while await loop.sock_recv(sock, 1 << 16):
                pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.slow
async def test_connections_beyond_the_bound_are_closed_and_those_that_are_there_served():
    entrance = Entrance(
        Security.LOCAL, OpenGuard(), limits_of("dispatcher", {"max_connections": 3})
    )
    line = listening(host="127.0.0.1", port=0, drain=0, entrance=entrance)
    async with line as port, connect(f"127.0.0.1:{port}") as channel:
        assert await HEALTH.call(channel, b"", 5) is not None
        socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        try:
            for sock in socks:
                sock.setblocking(False)
            closed = await asyncio.gather(*(_closed_within(sock, 3.0) for sock in socks))
            assert sum(closed) >= 18
            assert await HEALTH.call(channel, b"", 5) is not None
        finally:
            for sock in socks:
                sock.close()


def test_a_certificate_is_given_to_grpc_once_and_again_when_it_is_another(tmp_path):
    now = [0.0]
    keys = made(tmp_path / "keys")
    folder = WatchedFolder(keys / "dispatcher", load_service, lambda: now[0])
    shown = ShownCertificate(folder)

    assert [shown.newer() for _ in range(3)] == [None, None, None]

    authority.renew(keys, (), datetime.now(UTC))
    now[0] += 2 * LOOK
    assert shown.newer() is not None
    assert shown.newer() is None


async def test_without_room_for_its_poller_a_first_connection_is_refused_and_a_next_is_not(
    monkeypatch,
):
    def full(needed):
        raise Unavailable(f"no room for {needed}")

    monkeypatch.setattr(connection, "_POLLER", connection._Poller())  # whoever has another open
    async with connect("127.0.0.1:1"):
        monkeypatch.setattr(connection, "check_room", full)
        async with connect("127.0.0.1:2"):
            pass
    for opened in (connect("127.0.0.1:1"), serve(PatientWorker())):
        with pytest.raises(Unavailable, match="no room for 16"):
            async with opened:
                pass


def test_bytes_of_an_address_that_grpc_shows_are_left_out():
    nothing = grpc.aio.Metadata()
    said = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, nothing, nothing, "socket: failed (\x00\x02\x8e\x91\x7f)\n"
    )

    assert Status.of(said).details == "socket: failed (?\x8e\x91?)\n"

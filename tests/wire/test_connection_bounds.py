"""What a connection may bring, and how long it may do nothing: callers that break the manners."""

import asyncio
import contextlib
import resource
import zlib

import grpc
import pytest

from penstock.credentials.caller import caller_with
from penstock.credentials.entrance import Entrance, Security, entrance_of
from penstock.credentials.guard import OpenGuard
from penstock.errors import Refused
from penstock.wire import connection, connections
from penstock.wire.codec import Form
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from penstock.wire.rpc import StreamRpc, UnaryRpc
from tests.credentials.keyring import made
from tests.wire import raw_http2

HERE, LARGEST = "127.0.0.1", 1 << 20
AS_IT_IS = Form(bytes, bytes, bytes)
ASK = UnaryRpc("/a.B/Ask", AS_IT_IS, AS_IT_IS)
WATCH = StreamRpc("/a.B/Watch", AS_IT_IS, AS_IT_IS)
PIECE = bytes(1 << 18)


class Answers:
    """Answers with the length of what came, and with pieces without end, counted by stream."""

    def __init__(self):
        self.asked, self.pieces = 0, []

    async def ask(self, data):
        self.asked += 1
        return b"%d" % len(data)

    async def watch(self, _requests):
        stream = len(self.pieces)
        self.pieces.append(0)
        while True:
            self.pieces[stream] += 1
            yield PIECE

    def handlers(self, largest=None):
        methods = {"Ask": ASK.handler(self.ask, largest), "Watch": WATCH.handler(self.watch)}
        return grpc.method_handlers_generic_handler("a.B", methods)


class Status:
    """A dispatcher that says how it is, and nothing else."""

    async def status(self):
        return b"{}"

    def __getattr__(self, _name):
        return self.status


@pytest.fixture
async def raw():
    """Yield what connects to a port, says hello, and sends bytes."""
    writers = []

    async def connect_raw(port, sent=b"", window=None):
        reader, writer = await asyncio.open_connection(HERE, port)
        writers.append(writer)
        writer.write(raw_http2.PREFACE + raw_http2.settings(window) + sent)
        return reader, writer

    yield connect_raw
    for writer in writers:
        writer.transport.abort()


def serve(answers, largest=None):
    entrance = Entrance(Security.INSECURE, OpenGuard())
    handlers = answers.handlers(largest)
    return listening(handlers, host=HERE, port=0, drain=0, largest=LARGEST, entrance=entrance)


async def until_closed(reader):
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass


async def says(reader, text):
    """Return once *text* came."""
    seen = b""
    async with asyncio.timeout(20):
        while text not in seen:
            seen += await reader.read(1 << 16)


async def test_one_that_said_hello_and_calls_nothing_is_closed_in_time(monkeypatch, raw):
    short = dict(connection._SERVER) | {"grpc.max_connection_idle_ms": 300}
    monkeypatch.setattr(connection, "_SERVER", tuple(short.items()))
    async with serve(Answers()) as port, connect(f"{HERE}:{port}") as channel:
        assert await ASK.call(channel, b"", 5) == b"0"
        reader, _ = await raw(port)
        await until_closed(reader)
        assert await ASK.call(channel, b"abc", 5) == b"3"  # by a new connection


@pytest.mark.parametrize(("ports", "most"), [(1, 6), (2, 3)])
async def test_the_ports_of_a_process_share_the_files_that_it_may_have_open(
    monkeypatch, raw, ports, most
):
    monkeypatch.setattr(connection, "most_files", lambda: 8)
    monkeypatch.setattr(connections, "EVERY", 60.0)
    entrance = Entrance(Security.INSECURE, OpenGuard(), ports=ports)
    line = listening(Answers().handlers(), host=HERE, port=0, drain=0, entrance=entrance)
    async with line as port:
        for _ in range(most):
            reader, _ = await raw(port)
            assert await reader.read(1)  # it is greeted
        reader, _ = await raw(port)
        await until_closed(reader)


async def test_a_tls_handshake_that_never_ends_is_closed_in_time(monkeypatch, tmp_path):
    short = dict(connection._SERVER) | {"grpc.server_handshake_timeout_ms": 300}
    monkeypatch.setattr(connection, "_SERVER", tuple(short.items()))
    keys = made(tmp_path / "keys")
    entrance = entrance_of(HERE, str(keys / "dispatcher"), insecure=False)
    line = listening(dispatcher_handlers(Status()), host=HERE, port=0, drain=0, entrance=entrance)
    async with line as port:
        reader, writer = await asyncio.open_connection(HERE, port)
        writer.write(b"\x16\x03\x01\x02\x00\x01")  # how a handshake begins
        who = caller_with(str(keys / "operator"))
        async with connect(f"{HERE}:{port}", caller=who) as channel:
            assert await DispatcherClient(channel).status() == b"{}"
            await until_closed(reader)
            assert await DispatcherClient(channel).status() == b"{}"
        writer.close()


async def test_what_is_decompressed_is_bounded_as_what_is_not(raw):
    pack = zlib.compressobj(wbits=31)
    bomb = b"".join([*(pack.compress(PIECE) for _ in range(160)), pack.flush()])
    assert len(bomb) < 60_000 < LARGEST < 160 * len(PIECE)
    answers = Answers()
    async with serve(answers) as port, connect(f"{HERE}:{port}") as channel:
        assert await ASK.call(channel, b"abc", 5) == b"3"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        reader, _ = await raw(port, raw_http2.call(1, ASK.path, bomb, gzip=True))
        await says(reader, b"larger than max")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert await ASK.call(channel, b"abc", 5) == b"3"

    assert answers.asked == 2
    assert grown << 10 < 32 << 20


async def test_headers_have_a_bound_and_others_go_on(raw):
    answers = Answers()
    async with serve(answers) as port, connect(f"{HERE}:{port}") as channel:
        assert await ASK.call(channel, b"", 5) == b"0"
        many = [(f"x-{k}", "v" * 1000) for k in range(2 * connection.HEADERS // 1000)]
        reader, writer = await raw(port)
        await reader.read(1)  # the server's settings
        writer.write(raw_http2.ACK + raw_http2.call(1, ASK.path, more=many))
        await says(reader, b"metadata size exceeds")
        assert await ASK.call(channel, b"", 5) == b"0"

    assert answers.asked == 2


async def test_one_that_acknowledges_no_settings_is_closed_in_time(monkeypatch, raw):
    short = dict(connection._SERVER) | {"grpc.http2.settings_timeout": 300}
    monkeypatch.setattr(connection, "_SERVER", tuple(short.items()))
    async with serve(Answers()) as port, connect(f"{HERE}:{port}") as channel:
        assert await ASK.call(channel, b"", 5) == b"0"
        reader, _ = await raw(port, raw_http2.call(1, WATCH.path, ends=False))
        await until_closed(reader)
        assert await ASK.call(channel, b"abc", 5) == b"3"


async def test_a_message_beyond_a_services_own_setting_is_refused_by_its_name():
    answers = Answers()
    async with serve(answers, largest=100) as port, connect(f"{HERE}:{port}") as channel:
        assert await ASK.call(channel, bytes(100), 5) == b"100"
        with pytest.raises(Refused, match="101 bytes arrived, and 100 .*max_message_bytes"):
            await ASK.call(channel, bytes(101), 5)


async def test_one_that_opens_a_stream_and_does_not_read_has_little_made_for_it(raw):
    answers, read = Answers(), 0
    async with serve(answers) as port, connect(f"{HERE}:{port}") as channel:
        await raw(port, raw_http2.call(1, WATCH.path, ends=False), window=0)
        async with asyncio.timeout(20):
            while not answers.pieces:
                await asyncio.sleep(0.001)

        async def nothing():
            await asyncio.Event().wait()
            yield b""

        async with contextlib.aclosing(WATCH.call(channel, nothing())) as pieces:
            async for piece in pieces:
                read += len(piece)
                if read >= 64 * len(PIECE):
                    break
    unread, _ = answers.pieces
    assert unread <= 2  # how many a reader of the other stream is ahead by is gRPC's to say

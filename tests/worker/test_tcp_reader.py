"""A reader and a worker by TCP: how they meet, what is sent, and how each end of a link ends."""

import asyncio
import contextlib
import gc
import socket
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from penstock.credentials.caller import LOCAL, LocalCaller
from penstock.credentials.entrance import Entrance, Security
from penstock.credentials.guard import OpenGuard
from penstock.errors import ConfigError, Overloaded, Unavailable
from penstock.ipc.framing import pack
from penstock.protocol.data import Ack, FrameHeader, StreamEnd, Subscribe
from penstock.protocol.nearness import KnownWorker, WorkerProfile
from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.types import Codec
from penstock.transport.incoming import Incoming
from penstock.transport.link_messages import AckStream, GiveBack, Hello, OpenStream
from penstock.transport.tcp import to_worker
from penstock_worker import linked_reader, tcp_door, tcp_reader
from penstock_worker.config import WorkerConfig
from penstock_worker.runner.messages import FrameReady
from tests.worker.fake_runners import NBYTES, PLACE, Runners

SUBSCRIBE = Subscribe(1, 1, 1, 1, AckedSet(), NO_RANGES, 1 << 30)
PLACES = NBYTES // PLACE


class Worker:
    """Sends the places of the memory, *each* in a message when it is asked for them."""

    def __init__(self, runners, each=1):
        self._runners, self._each = runners, each
        self.open = 0

    async def lend(self, requests, form):
        self.open += 1
        try:
            place = 0
            async for _ in requests:
                frames = []
                for _ in range(self._each):
                    ready = FrameReady(1, place, 1, place * PLACE, PLACE, b"", Codec.NONE, PLACE)
                    spans = RangeSet(((place, place + 1),))
                    frames.append((FrameHeader(1, 1, 1, place, 1, 0, spans, b""), ready))
                    place += 1
                yield form.frames(frames, self._runners.payload)
                if place == PLACES:
                    break
            yield form.reply(StreamEnd(1, 1))
        finally:
            self.open -= 1


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in threading.enumerate():
        if thread.name == "penstock-link":
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
async def bounded():
    """What opens a door with bounds: its worker, its runners, and how readers know it."""
    with contextlib.ExitStack() as opened:

        async def open_door(guard=None, each=1, **bounds):
            entrance = Entrance(Security.INSECURE, guard or OpenGuard())
            door = opened.enter_context(tcp_door.opened("127.0.0.1", 0, entrance))
            runners = Runners()
            worker = Worker(runners, each)
            door.serve(worker, runners, WorkerConfig(limits=bounds))
            place = {"data_port": door.port, "data_token": door.token}
            known = KnownWorker("127.0.0.1:1", 7, WorkerProfile("h", ("tcp",), **place))
            return worker, runners, known, door

        yield open_door


@pytest.fixture
async def met(bounded):
    return await bounded()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            gc.collect()
            await asyncio.sleep(0.001)


@asynccontextmanager
async def reading(transport):
    asked = asyncio.Queue()
    asked.put_nowait(SUBSCRIBE)

    async def requests():
        while True:
            yield await asked.get()

    messages = transport.read(requests())

    async def frames():
        try:
            return await anext(messages)
        finally:
            asked.put_nowait(Ack(NO_RANGES, 1))

    try:
        yield frames
    finally:
        await messages.aclose()


async def test_frames_arrive_as_they_were_made(met):
    worker, runners, known, _ = met
    async with to_worker(known, LOCAL) as transport, reading(transport) as frames:
        got = [(await frames())[0] for _ in range(PLACES)]

        assert [header.first for header, _ in got] == list(range(PLACES))
        assert all(set(bytes(payload)) == {header.first} for header, payload in got)
        assert all(payload.readonly for _, payload in got)
        ((header, _),) = await frames()
        assert isinstance(header, StreamEnd)
    await until(lambda: worker.open == 0)
    assert runners.loans.lent(runners.runner) == {}


@pytest.mark.parametrize("small", [0, 2 * PLACE], ids=["lent", "copied"])
async def test_several_frames_share_a_message(bounded, monkeypatch, small):
    monkeypatch.setattr(tcp_reader, "SMALL", small)
    _, runners, known, _ = await bounded(each=PLACES)
    async with to_worker(known, LOCAL) as transport, reading(transport) as frames:
        got = await frames()

    assert [set(bytes(payload)) for _, payload in got] == [{place} for place in range(PLACES)]
    assert all(np.frombuffer(one, np.uint8).ctypes.data % 64 == 0 for _, one in got)
    assert runners.loans.lent(runners.runner) == {}


async def test_views_outlive_the_link_and_its_worker(bounded):
    _, runners, known, door = await bounded()
    async with to_worker(known, LOCAL) as transport, reading(transport) as frames:
        got = [(await frames())[0][1] for _ in range(3)]
        door.close()
        with pytest.raises(Unavailable, match=r"127.0.0.1:1 is gone: it hung up"):
            while True:
                await frames()
        assert transport.broken
    runners.runner.die()

    assert [set(bytes(payload)) for payload in got] == [{0}, {1}, {2}]


async def test_two_readers_have_links_of_their_own(met):
    worker, _, known, _ = met
    async with to_worker(known, LOCAL) as one, to_worker(known, LOCAL) as other:
        async with reading(one) as first, reading(other) as second, reading(one) as third:
            got = [await frames() for frames in (first, second, third) * 2]
            assert [message[0][0].first for message in got] == [0, 0, 0, 1, 1, 1]
            assert worker.open == 3
    await until(lambda: worker.open == 0)


async def test_a_reader_that_reads_nothing_keeps_the_worker_waiting_for_its_acks(met):
    worker, _, known, _ = met
    sock = socket.create_connection(("127.0.0.1", known.profile.data_port))
    with sock:
        sock.sendall(pack(Hello("", known.profile.data_token)) + pack(OpenStream(1, SUBSCRIBE)))
        await until(lambda: worker.open == 1)
        sock.sendall(pack(AckStream(1, Ack(NO_RANGES, 1))))
    await until(lambda: worker.open == 0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"data_token": "another"}, "does not know this worker's token"),
        ({"data_port": 1}, "its data_port 127.0.0.1:1 cannot be reached"),
        ({"data_port": 0}, "it has no data_port"),
    ],
)
async def test_who_may_not_come_in_hears_why(met, said, why):
    _, _, known, _ = met
    known = replace(known, profile=replace(known.profile, **said))
    with pytest.raises(Unavailable, match=why):
        async with to_worker(known, LOCAL):
            pass


async def test_one_identity_has_so_many_connections(bounded):
    _, _, known, _ = await bounded(max_connections_per_identity=2)
    async with to_worker(known, LOCAL), to_worker(known, LOCAL):
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1 has 2 connections here"):
            async with to_worker(known, LOCAL):
                pass
    async with to_worker(known, LOCAL):
        pass


async def test_one_identity_has_so_many_streams(bounded):
    _, _, known, _ = await bounded(max_calls_per_identity=1)
    async with to_worker(known, LOCAL) as transport, reading(transport) as frames:
        await frames()
        async with reading(transport) as more:
            with pytest.raises(Overloaded, match="streams open"):
                await more()


@pytest.mark.parametrize(
    "said", [GiveBack((1,)), OpenStream(1, SUBSCRIBE)], ids=["gives back", "opens"]
)
async def test_who_was_not_let_in_is_hung_up_on(met, said):
    _, _, known, _ = met
    with socket.create_connection(("127.0.0.1", known.profile.data_port)) as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(sock, pack(said))
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""


async def test_who_says_nothing_is_hung_up_on(met, monkeypatch):
    monkeypatch.setattr(linked_reader, "GREET_WITHIN", 0.01)
    _, _, known, _ = met
    with socket.create_connection(("127.0.0.1", known.profile.data_port)) as sock:
        sock.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""


async def test_a_worker_with_tls_opens_no_plain_port():
    entrance = Entrance(Security.CREDENTIALS, OpenGuard(), folder=object())
    with tcp_door.opened("127.0.0.1", 0, entrance) as door:
        assert door is None


async def test_a_reader_with_credentials_for_tls_sends_nothing_in_plain(met):
    class Secured(LocalCaller):
        tls = object()

    _, _, known, _ = met
    with pytest.raises(Unavailable, match="credentials for TLS"):
        async with to_worker(known, Secured()):
            pass


async def test_a_port_that_cannot_be_had_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        entrance = Entrance(Security.INSECURE, OpenGuard())
        with pytest.raises(ConfigError, match=f"data_port {port} of 127.0.0.1"):
            with tcp_door.opened("127.0.0.1", port, entrance):
                pass


async def test_a_reader_hears_of_an_error_that_nobody_foresaw(met, monkeypatch):
    _, _, known, _ = met
    async with to_worker(known, LOCAL) as transport, reading(transport) as frames:
        await frames()

        def broken(*_):
            raise KeyError("no such place")

        monkeypatch.setattr(Incoming, "took", broken)
        with pytest.raises(Unavailable, match="no such place"):
            async with asyncio.timeout(60):
                while True:
                    await frames()

"""A reader and a worker on one host: how they meet, and what is borrowed and given back."""

import asyncio
import contextlib
import gc
import os
import select
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from penstock.errors import ConfigError, DatasetError, Overloaded, Unavailable
from penstock.ipc.framing import pack
from penstock.ipc.message_line import MessageLine
from penstock.protocol.data import Ack, FrameHeader, StreamEnd, Subscribe
from penstock.protocol.nearness import KnownWorker, WorkerProfile
from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.types import Codec
from penstock.transport import borrowed, link, pool, shared_memory
from penstock.transport.link_messages import (
    Denied,
    FromReader,
    FromWorker,
    GiveBack,
    Hello,
    OpenStream,
    Welcome,
)
from penstock.transport.pool import TransportPool
from penstock.transport.shared_memory import SharedMemoryTransport, to_worker
from penstock.wire import worker as wire
from penstock_worker import linked_reader, reader_door, shm_door
from penstock_worker.config import WorkerConfig
from penstock_worker.runner.messages import FrameReady
from tests.worker.fake_runners import NBYTES, PLACE, Runners

SUBSCRIBE = Subscribe(1, 1, 1, 1, AckedSet(), NO_RANGES, 1 << 30)


class Worker:
    """Sends the first places of the memory when it is asked for them: a frame for each ack."""

    def __init__(self, runners):
        self._runners = runners
        self.open = 0

    async def lend(self, requests, form):
        self.open += 1
        try:
            place = 0
            async for _ in requests:
                ready = FrameReady(1, place, 1, place * PLACE, PLACE, b"", Codec.NONE, PLACE)
                header = FrameHeader(1, 1, 1, place, 1, 0, RangeSet(((place, place + 1),)), b"")
                yield form.frames([(header, ready)], self._runners.payload)
                place += 1
                if place == NBYTES // PLACE:
                    break
            yield form.reply(StreamEnd(1, 1))
        finally:
            self.open -= 1


@pytest.fixture
async def bounded(tmp_path):
    """What opens a door with bounds: its worker, its runners, and how readers know it."""
    with contextlib.ExitStack() as opened:

        async def open_door(**bounds):
            door = opened.enter_context(shm_door.opened(str(tmp_path)))
            runners = Runners()
            worker = Worker(runners)
            door.serve(worker, runners, WorkerConfig(limits=bounds))
            place = {"boot_id": door.boot_id, "shm_socket": door.path, "shm_token": door.token}
            return worker, runners, KnownWorker("w:1", 7, WorkerProfile("h", ("shm",), **place))

        yield open_door
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
async def met(bounded):
    return await bounded()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            gc.collect()
            await asyncio.sleep(0.001)


@asynccontextmanager
async def reading(transport, acks=20):
    asked = asyncio.Queue()
    asked.put_nowait(SUBSCRIBE)

    async def requests():
        while True:
            yield await asked.get()

    messages = transport.read(requests())

    async def frame():
        try:
            ((header, payload),) = await anext(messages)
        finally:
            asked.put_nowait(Ack(NO_RANGES, 1))
        return header, payload

    try:
        yield frame
    finally:
        await messages.aclose()


async def test_after_the_first_frame_the_rest_is_seen_where_it_was_made(met):
    worker, runners, known = met
    async with to_worker(known) as transport, reading(transport) as frame:
        got = [await frame() for _ in range(NBYTES // PLACE)]

        assert [header.first for header, _ in got] == list(range(NBYTES // PLACE))
        assert all(set(bytes(payload)) == {header.first} for header, payload in got)
        assert all(payload.readonly for _, payload in got)
        assert runners.loans.lent_frames == NBYTES // PLACE - 1
        header, _ = await frame()
        assert isinstance(header, StreamEnd)
    await until(lambda: worker.open == 0)


async def test_a_place_comes_back_when_its_last_view_dies(met):
    _, runners, known = met
    async with to_worker(known) as transport, reading(transport) as frame:
        await frame()
        _, payload = await frame()
        leaf = np.frombuffer(payload, np.int64).reshape(2, -1)[1:, ::2]
        del payload
        runners.loans.free(runners.runner, [PLACE])
        await frame()
        assert PLACE not in runners.free
        assert leaf[0, 0] == 0x0101010101010101

        del leaf
        await until(lambda: PLACE in runners.free)


async def test_views_outlive_the_transport_and_give_back_what_they_have_one_by_one(met):
    _, runners, known = met
    async with to_worker(known) as transport, reading(transport) as frame:
        got = [(await frame())[1] for _ in range(3)]
    runners.loans.end_run(runners.runner)
    assert set(bytes(got[1])) == {1}

    got[1] = None
    await until(lambda: runners.free == [PLACE])
    assert set(bytes(got[2])) == {2}
    got[2] = None
    await until(lambda: runners.free == [PLACE, 2 * PLACE])


async def test_beyond_what_may_be_kept_frames_are_copies(met):
    _, runners, known = met
    async with to_worker(known) as transport, reading(transport) as frame:
        got = []
        for place in range(NBYTES // PLACE):
            got.append((await frame())[1])
            runners.loans.free(runners.runner, [place * PLACE])
        assert runners.loans.copied_frames >= NBYTES // PLACE - 5
        assert [payload[0] for payload in got] == list(range(NBYTES // PLACE))


async def test_a_reader_that_is_gone_has_nothing(met):
    _, runners, known = met
    async with to_worker(known) as transport, reading(transport) as frame:
        got = [await frame() for _ in range(3)]
        runners.loans.end_run(runners.runner)
        transport._line._fail("cut")

        await until(lambda: runners.free == [PLACE, 2 * PLACE])
        assert len(got) == 3


async def test_a_worker_that_is_gone_leaves_what_was_seen(tmp_path):
    runners = Runners()
    with shm_door.opened(str(tmp_path)) as door:
        door.serve(Worker(runners), runners, WorkerConfig())
        profile = WorkerProfile(boot_id=door.boot_id, shm_socket=door.path, shm_token=door.token)
        async with to_worker(KnownWorker("w:1", 7, profile)) as transport:
            async with reading(transport) as frame:
                got = [(await frame())[1] for _ in range(3)]
                door.close()
                with pytest.raises(Unavailable, match="w:1 is gone"):
                    await frame()
                    await frame()
            assert transport.broken
            runners.runner.die()
    del runners

    assert [payload[0] for payload in got] == [0, 1, 2]


async def test_memory_that_cannot_be_mapped_is_sent_as_bytes(met, monkeypatch, caplog):
    _, runners, known = met

    def no_room(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(shared_memory.Borrowed, "map", no_room)
    async with to_worker(known) as transport, reading(transport) as frame:
        got = [(await frame())[1][0] for _ in range(4)]

    assert got == [0, 1, 2, 3]
    assert runners.loans.lent_frames == 0
    assert "its frames are copied: [Errno 12] Cannot allocate memory" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"shm_token": "another"}, "does not know this worker's token"),
        ({"shm_socket": "/nowhere/socket"}, "let both sides share the folder"),
        ({"boot_id": "other"}, "it is on another host: its boot id is other"),
        ({"boot_id": ""}, "its boot id is not known"),
    ],
)
async def test_who_cannot_come_in_is_told_why(met, wrong, why):
    _, _, known = met
    with pytest.raises(Unavailable, match=why):
        async with to_worker(KnownWorker("w:1", 7, replace(known.profile, **wrong))):
            pass


async def test_a_welcome_that_comes_too_late_is_nothing_to_anybody(monkeypatch):
    monkeypatch.setattr(link, "WELCOME_WITHIN", 0.01)
    went_wrong, (mine, theirs) = [], socket.socketpair()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: went_wrong.append(about))
    mine.setblocking(False)
    transport = SharedMemoryTransport(KnownWorker("host:1", 1, WorkerProfile("host")), mine)
    with theirs:
        with pytest.raises(Unavailable, match="it said nothing for 0.01 s"):
            await transport.welcomed()
        theirs.sendall(pack(Welcome()) + pack(Denied("it is late")))
        await until(lambda: transport.broken)

    assert not went_wrong


@pytest.mark.slow
async def test_where_there_is_nothing_to_give_back_it_is_looked_for_seldom(met, monkeypatch):
    monkeypatch.setattr(shared_memory, "GIVE_BACK_EVERY", 0.001)
    monkeypatch.setattr(shared_memory, "GIVE_BACK_AT_LEAST", 60.0)
    _, _, known = met
    async with to_worker(known) as idle:
        looks = []
        monkeypatch.setattr(idle._borrowed, "returned", lambda: looks.append(1) or ())
        await until(lambda: len(looks) >= 4)
        before = len(looks)
        await asyncio.sleep(0.01)

        assert len(looks) - before <= 2


async def test_who_insists_gets_an_error_that_names_both_hosts(met, monkeypatch):
    _, _, known = met
    monkeypatch.setattr(pool, "boot_id", lambda: "mine")
    monkeypatch.setattr(shared_memory, "boot_id", lambda: "mine")
    async with TransportPool("shm") as transports:
        with pytest.raises(DatasetError, match=f"host: {known.profile.boot_id}; of this one: mine"):
            await transports.to(known)


async def test_the_while_that_it_gets_begins_anew_when_it_was_reached(met, monkeypatch):
    async def lives(*_):
        return True

    _, _, known = met
    now = [100.0]
    monkeypatch.setattr(pool, "clock", SimpleNamespace(now=lambda: now[0]))
    monkeypatch.setattr(wire, "lives", lives)
    hidden = replace(known, profile=replace(known.profile, shm_socket="/no"))
    async with TransportPool("shm") as transports:
        with pytest.raises(Unavailable):
            await transports.to(hidden)
        (await transports.to(known)).close()
        now[0] += 2 * pool.PATIENCE
        with pytest.raises(Unavailable, match="/no cannot be reached"):
            await transports.to(hidden)
        now[0] += 2 * pool.PATIENCE
        with pytest.raises(DatasetError, match="reads no other way"):
            await transports.to(hidden)


async def test_files_that_nobody_takes_are_not_kept_open():
    got, gone = asyncio.Queue(), asyncio.Queue()
    here, there = socket.socketpair(socket.AF_UNIX)
    given = MessageLine(there, FromReader, got.put_nowait, gone.put_nowait)
    saying = MessageLine(here, FromWorker, print, print)
    end, file = os.pipe()
    os.set_blocking(end, False)
    for _ in range(20):
        saying.send(GiveBack((1,)), file)
    os.close(file)
    assert [await asyncio.wait_for(got.get(), 10) for _ in range(20)] == [GiveBack((1,))] * 20
    assert (len(given.files), os.read(end, 1)) == (0, b"")  # it would block if any were open
    os.close(end)
    given.close()
    saying.close()


async def test_who_says_no_hello_is_hung_up_on(met):
    _, _, known = met
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(known.profile.shm_socket)
        sock.send(b"\x01" + bytes(8))
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while await loop.sock_recv(sock, 64):
                pass


def silent(known, count):
    """Connect so often to the socket of *known*, and say nothing."""
    socks = []
    for _ in range(count):
        socks.append(socket.socket(socket.AF_UNIX))
        socks[-1].connect(known.profile.shm_socket)
    return socks


async def test_a_flood_of_those_who_say_nothing_closes_its_own_and_keeps_nobody_out(bounded):
    _, _, known = await bounded(max_connections_per_identity=20)
    async with to_worker(known) as transport:
        before, socks = len(os.listdir("/proc/self/fd")), []
        with contextlib.ExitStack() as held:
            for _ in range(20):
                socks += map(held.enter_context, silent(known, 50))
                async with reading(transport) as frame:  # who is in reads on
                    await frame()
                async with to_worker(known) as other, reading(other) as frame:
                    await frame()
            await until(lambda: len(os.listdir("/proc/self/fd")) <= before + len(socks) + 25)


async def test_one_connection_too_many_of_a_user_is_told_so(bounded):
    _, _, known = await bounded(max_connections_per_identity=2)
    async with to_worker(known), to_worker(known):
        why = f"user {os.getuid()} has 2 connections.*max_connections_per_identity"
        with pytest.raises(Unavailable, match=why):
            async with to_worker(known):
                pass
    async with asyncio.timeout(60):
        while True:  # until those are seen to be gone
            with contextlib.suppress(Unavailable):
                async with to_worker(known):
                    break


async def test_one_stream_too_many_of_a_user_is_told_so_and_the_others_go_on(bounded):
    worker, _, known = await bounded(max_calls_per_identity=2)
    async with to_worker(known) as transport, to_worker(known) as other:
        async with reading(transport) as first, reading(other) as second:
            await first()
            await second()
            with pytest.raises(Overloaded, match="max_calls_per_identity"):
                async with reading(transport) as third:
                    await third()
            await first()
        await until(lambda: worker.open == 0)
        async with reading(other) as again:
            await again()


async def test_who_greets_where_too_much_waits_is_hung_up_on(bounded, monkeypatch):
    monkeypatch.setattr(linked_reader, "MOST_UNSENT", -1)  # as if so much waited
    _, _, known = await bounded()
    (sock,) = silent(known, 1)
    with sock:
        sock.sendall(pack(Hello(known.profile.boot_id, known.profile.shm_token)))
        await until(partial(hung_up, sock))


async def test_who_opens_streams_and_reads_nothing_is_hung_up_on(bounded, monkeypatch):
    _, _, known = await bounded()
    monkeypatch.setattr(linked_reader, "MOST_UNSENT", 100)
    (sock,) = silent(known, 1)
    profile, loop = known.profile, asyncio.get_running_loop()
    with sock:
        sock.setblocking(False)
        await loop.sock_sendall(sock, pack(Hello(profile.boot_id, profile.shm_token)))
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(60):
                for stream in range(1 << 20):
                    await loop.sock_sendall(sock, pack(OpenStream(stream, SUBSCRIBE)))


@pytest.mark.quick(1)
@pytest.mark.parametrize("numbers", [(1,), (1, 1)])
async def test_streams_that_end_before_they_begin_are_not_counted_on(bounded, numbers):
    _, _, known = await bounded(max_calls_per_identity=2, max_connections_per_identity=2)
    profile = known.profile
    said = pack(Hello(profile.boot_id, profile.shm_token))
    said += b"".join(pack(OpenStream(number, SUBSCRIBE)) for number in numbers)
    for _ in range(5):
        (sock,) = silent(known, 1)
        with sock:
            sock.sendall(said)
            if len(numbers) == 1:  # this one hangs up by itself, before it is greeted
                sock.shutdown(socket.SHUT_RD)
            await until(partial(hung_up, sock))
    async with to_worker(known) as transport, reading(transport) as frame:
        await frame()


def hung_up(sock):
    """Tell whether the other side has."""
    over = select.poll()
    over.register(sock, 0)
    return over.poll(0)


async def test_who_greets_twice_is_hung_up_on(bounded):
    _, _, known = await bounded()
    hello = pack(Hello(known.profile.boot_id, known.profile.shm_token))
    wrong = pack(Hello(known.profile.boot_id, "another"))
    for first in (hello, wrong):
        (sock,) = silent(known, 1)
        with sock:
            sock.sendall(first + hello)
            await until(partial(hung_up, sock))


async def test_where_few_files_may_be_open_fewer_readers_come_in(bounded, monkeypatch):
    monkeypatch.setattr(reader_door, "most_files", lambda: 8)
    _, _, known = await bounded()
    async with to_worker(known), to_worker(known):
        with pytest.raises(Unavailable, match="has 2 connections"):
            async with to_worker(known):
                pass


async def test_sockets_that_nobody_answers_are_swept_away(tmp_path):
    stale = tmp_path / "worker-0.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(stale))
    with shm_door.opened(str(tmp_path)) as door, shm_door.opened(str(tmp_path)) as other:
        assert sorted(map(str, tmp_path.iterdir())) == sorted([door.path, other.path])


def test_a_folder_that_can_hold_no_socket_is_an_error_where_it_was_asked_for(tmp_path):
    async def open_door():
        with shm_door.opened(str(tmp_path / ("long" * 40))):
            pass

    with pytest.raises(ConfigError, match="socket_dir .*longer than 107"):
        asyncio.run(open_door())


async def test_without_a_folder_of_its_own_a_worker_offers_nothing(monkeypatch, caplog):
    def elsewhere():
        raise PermissionError("it is not this user's folder")

    monkeypatch.setattr(shm_door, "_usual_folder", elsewhere)
    with shm_door.opened(None) as door:
        assert door is None
    assert "will not share memory with this worker: it is not this user's" in caplog.text


def test_a_view_that_dies_as_the_interpreter_ends_raises_nothing(monkeypatch):
    ends = os.pipe()
    held = borrowed._Socket()
    held.fd = ends[1]
    view = np.zeros(1)
    held.borrow(3, view)

    for name in ("_RUNNING", "os", "pack", "suppress"):  # an ending interpreter does this
        monkeypatch.setattr(borrowed, name, None)
    del view, held
    monkeypatch.undo()

    for fd in ends:
        os.close(fd)

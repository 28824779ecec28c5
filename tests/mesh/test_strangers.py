"""Floods of connections, half-open ones and slow readers, at real services: who reads, reads on.

Each port is flooded from an address of its own, while a loop reads at the side of it, and short
answers are asked for. What the process has in memory is looked at before and after.
"""

import asyncio
import contextlib
import itertools
import json
import resource
import shutil
import socket
import tempfile
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from penstock import Dataset
from penstock.credentials.caller import LocalCaller
from penstock.definition import encode
from penstock.errors import Unavailable
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import NO_RANGES, AckedSet
from penstock.protocol.types import Codec, Mode
from penstock.reader.session.line import call_dispatcher
from penstock.runtime.address import split
from penstock.runtime.event_loop import LoopThread
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import READER_CONTROL, DispatcherClient
from penstock.wire.worker import HEALTH, READ
from penstock_cluster.cli.status import fetch
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.openings import opening
from tests.wire import raw_http2

FLOOD = 2000
"""Connections that are opened at each port."""

BOUNDS = {
    "max_connections": FLOOD // 2,
    "max_connections_per_identity": 200,
    "max_http_connections": 100,
}
ROOM = 48 << 20
"""Bytes that a process may grow by: what was opened before it was closed, and what is kept."""

SOON = 5.0
"""Seconds for the slowest of the short answers: those who ask give up then."""

PORTS = ["dispatcher", "worker", "the dispatcher's HTTP", "the worker's HTTP", "shared memory"]


@pytest.fixture(scope="module", autouse=True)
def many_files():
    """Let this process open as many connections as it makes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * FLOOD)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def mesh(clusters):
    sockets = Path(tempfile.mkdtemp())
    settings = {
        "dispatcher": DispatcherConfig(http_port=0, limits=BOUNDS),
        "worker": WorkerConfig(
            buffer_bytes=8 << 20, socket_dir=str(sockets), http_port=0, limits=BOUNDS
        ),
    }
    with clusters.own(workers=1, **settings) as cluster:
        # Runs that come once, as those that load modules, are not what is measured.
        assert len(list(Dataset.range(10).distribute("distributed_epoch", cluster.target))) == 10
        cluster.socket_dir = sockets
        yield cluster
    assert not list(sockets.glob("*.sock"))
    shutil.rmtree(sockets)


class Place:
    """One of `PORTS`: where it is, and whose process answers there."""

    def __init__(self, mesh, name):
        stats = json.loads(fetch(mesh.target))
        (worker,) = stats["workers"]
        http = {
            "the dispatcher's HTTP": stats["http"],
            "the worker's HTTP": worker["stats"]["http"],
        }
        self.http = http.get(name, "")
        self.member = mesh.workers[0]
        if "dispatcher" in name:
            self.member = mesh.dispatcher
        host, _, port = (self.http or self.member.address).rpartition(":")
        self.where = host.rpartition("/")[2], int(port)
        if name == "shared memory":
            (file,) = mesh.socket_dir.glob("*.sock")
            self.where = str(file)

    def connect(self, first):
        if isinstance(self.where, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.where)
        else:
            sock = socket.create_connection(self.where, source_address=("127.0.0.6", 0))
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.send(first)
        return sock

    @property
    def memory(self):
        with open(f"/proc/{self.member.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()


def ask(address):
    """Return what the health check of a service at *address* says."""

    async def call():
        async with connect(address) as channel:
            return await HEALTH.call(channel, b"", SOON)

    with LoopThread.shared() as loop:
        return loop.run(call(), 20)


@contextlib.contextmanager
def flooding(place, first):
    """Open `FLOOD` connections at *place* and hold them, from a thread; yield what it waits by."""
    with contextlib.ExitStack() as held:

        def flood():
            for _ in range(FLOOD):
                held.enter_context(place.connect(first))

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            yield thread
        finally:
            thread.join()


def answered(place):
    """Ask for a short answer where the flood is, by a new connection; return how long that took.

    Where there is no room at that moment, it asks again, as readers do.
    """
    began = time.monotonic()
    while time.monotonic() < began + 2 * SOON:
        with contextlib.suppress(Unavailable, ConnectionError):
            if place.http:
                with urllib.request.urlopen(place.http + "/healthz", timeout=20) as answer:
                    assert answer.read() == b"ok\n"
            else:
                assert ask(place.member.address)
            break
    return time.monotonic() - began


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "first", [b"", raw_http2.PREFACE + raw_http2.settings()], ids=["silent", "greeted"]
)
@pytest.mark.parametrize("name", PORTS)
def test_a_flood_neither_stops_others_nor_takes_memory(mesh, name, first):
    place = Place(mesh, name)
    elements = iter(Dataset.range(300_000).distribute("distributed_epoch", mesh.target))
    seen, took = [next(elements)], []
    with flooding(place, first) as flood:
        before = place.memory
        while flood.is_alive() or len(took) < 10:
            took.append(answered(place))
            seen += [next(elements) for _ in range(1000)]
        new = Dataset.range(10).distribute("distributed_epoch", mesh.target)
        assert sorted(map(int, new)) == list(range(10))
        grown = place.memory - before
    seen += elements

    assert sorted(map(int, seen)) == list(range(300_000))
    assert max(took) < SOON, took
    assert grown < ROOM


class Slow:
    """A reader that opens streams, and reads nothing of them."""

    def __init__(self, address):
        self._address = address
        host, port = split(address)
        self._sock = socket.create_connection((host, port))
        token = LocalCaller().shown(host, port)
        self._send(raw_http2.PREFACE + raw_http2.settings(window=0))
        self._sock.recv(1)
        self._send(raw_http2.ACK)
        self._token, self._stream = token, -1

    def _send(self, data):
        self._sock.sendall(data)

    def open(self, method, message):
        """Call *method* with a first *message*; return what sends one more by the same stream."""
        self._stream += 2
        stream, form = self._stream, method.request
        first = form.encode(message)
        self._send(raw_http2.call(stream, method.path, first, ends=False, token=self._token))
        return lambda more: self._send(raw_http2.data(stream, form.encode(more)))

    def close(self):
        self._sock.close()


def opened(mesh, dataset, job):
    """Open *job*; return its iteration."""
    address = mesh.dispatcher.address
    definition = encode(dataset.node).to_bytes()

    async def register(dispatcher):
        name = await dispatcher.register_dataset(definition, versions())
        wanted = opening(versions(), name, Mode.DYNAMIC, job, 0, Codec.NONE)
        return (await dispatcher.open_iteration(wanted)).iteration

    with LoopThread.shared() as loop:
        return loop.run(call_dispatcher(address, 20.0, register), 30)


def looked(mesh, iteration):
    """Read the iteration's view once as another reader; return its first task, with its number."""

    async def run():
        async with connect(mesh.dispatcher.address) as channel:
            beats = asyncio.Queue()
            number = itertools.count(1)

            async def heartbeats():
                while True:
                    yield await beats.get()

            views = DispatcherClient(channel).reader_control(heartbeats())
            async with contextlib.aclosing(views), asyncio.timeout(20):
                beats.put_nowait(ReaderHeartbeat(iteration, "looking", None, next(number)))
                async for view in views:
                    for name, task in view.tasks.items():
                        if task.worker is not None:
                            return view.reader, name, task
                    beats.put_nowait(
                        ReaderHeartbeat(iteration, "looking", view.reader, next(number))
                    )
        raise AssertionError("no task is run")

    with LoopThread.shared() as loop:
        return loop.run(run(), 30)


def until(mesh, holds):
    """Wait until *holds* is true of the status."""
    deadline = time.monotonic() + 20
    while not holds(json.loads(fetch(mesh.target))):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def readers_of(status, iteration):
    return [one["readers"] for one in status["iterations"] if one["iteration"] == iteration]


def reads_on(mesh):
    far = Dataset.range(3000).distribute("distributed_epoch", mesh.target)
    assert sorted(map(int, far)) == list(range(3000))


def test_a_reader_that_takes_no_views_has_one_waiting_and_others_read_on(mesh):
    place = Place(mesh, "dispatcher")
    iteration = opened(mesh, Dataset.range(10), "slow views")
    slow = Slow(place.member.address)
    try:
        before = place.memory
        for number in range(20):
            beat = ReaderHeartbeat(iteration, f"slow {number}", None, 1)
            more = slow.open(READER_CONTROL, beat)
            for seq in range(2, 100):
                more(replace(beat, seq=seq))
        until(mesh, lambda status: len(readers_of(status, iteration)[0]) == 20)
        reads_on(mesh)
        assert answered(place) < SOON
        assert place.memory - before < ROOM
    finally:
        slow.close()


def test_a_reader_that_takes_no_frames_has_few_waiting_and_others_read_on(mesh):
    place = Place(mesh, "worker")
    large = Dataset.range(1_000_000).map(lambda x: bytes(1 << 18))
    iteration = opened(mesh, large, "slow frames")
    reader, name, task = looked(mesh, iteration)
    slow = Slow(place.member.address)
    try:
        before = place.memory
        wanted = Subscribe(reader, name, task.attempt, 1, AckedSet(), NO_RANGES, 1 << 40)
        slow.open(READ, wanted)
        until(mesh, lambda status: status["workers"][0]["stats"]["streams"])
        reads_on(mesh)
        assert answered(place) < SOON
        assert place.memory - before < ROOM
    finally:
        slow.close()

"""The journal of real processes: killed while they write, stopped, out of room, two of them."""

import asyncio
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import PenstockError
from penstock.protocol.control import (
    Assignment,
    ReaderHeartbeat,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
)
from penstock.protocol.types import PROTOCOL, Codec, Mode, ReaderStatus, Versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_dispatcher.journal.store import Store
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")

WRITER = """
import asyncio, os, random, resource, sys
from pathlib import Path
from penstock.protocol.types import Codec, Mode
from penstock.protocol.calls import JobParameters
from penstock_dispatcher.core.facts import (JobCreated)
from penstock_dispatcher.journal import journal as module, open_journal

module.LEAST, module.RETRY = int(sys.argv[2]), 0.05
if int(sys.argv[3]):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), hard))

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Listener:
    def full(self, error):
        say("full", error)
    def relieved(self):
        say("relieved")

async def main():
    rng = random.Random(os.getpid())
    journal = open_journal(Path(sys.argv[1]), power=False)
    state = journal.state
    journal.attach(Listener())
    say("length", state.length)
    while True:
        if not journal.blocked:
            for _ in range(rng.randrange(1, 5)):
                workers = "x" * rng.randrange(2000)
                same = JobParameters("d", Mode.OFF, Codec.NONE, dataset_id=workers)
                fact = JobCreated(f"j{state.length}", same, 1, False)
                state.apply(fact)
                journal.append(fact)
            journal.call_when_durable(lambda length=state.length: say("length", length))
        await asyncio.sleep(0 if rng.random() < 0.5 else 0.0005)

asyncio.run(main())
"""


@contextmanager
def writing(folder, least=1 << 20, limit=0):
    """Run a process that writes facts, and acknowledges them on its standard output."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(least), str(limit)],
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process):
    """Return the last length that the killed *process* acknowledged."""
    lines = process.stdout.read().decode().splitlines()
    told = [int(line.split()[1]) for line in lines if line.startswith("length")]
    return max(told, default=0)


def kept(folder):
    with Store(folder / "journal.db", power=False) as store:
        return store.load().state


@pytest.mark.slow
@pytest.mark.parametrize("least", [1 << 20, 20_000], ids=["facts", "snapshots"])
def test_a_process_killed_while_it_writes_has_kept_all_that_it_acknowledged(tmp_path, least):
    rng, length = random.Random(least), 0
    for _ in range(3):
        with writing(tmp_path, least) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.15))
            process.kill()
            told = acknowledged(process) if select.select([process.stdout], [], [], 5)[0] else 0

        state = kept(tmp_path)

        assert state.length >= max(told, length)
        assert list(state.jobs) == [f"j{n}" for n in range(state.length)]
        length = state.length
    assert length > 20


def test_a_limit_on_file_sizes_stops_writing_loses_nothing_and_may_be_raised(tmp_path):
    with writing(tmp_path, least=50_000, limit=200_000) as process:
        lines = iter(process.stdout.readline, b"")
        told = next(line for line in lines if line.startswith(b"full")).decode()

        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

        next(line for line in lines if line.startswith(b"relieved"))
        more = int(next(line for line in lines if line.startswith(b"length")).split()[1])
        process.kill()
        last = max(more, acknowledged(process))

    state = kept(tmp_path)
    assert "no room to write" in told
    assert "journal.db" in told
    assert state.length >= last
    assert list(state.jobs) == [f"j{n}" for n in range(state.length)]


# --- whole dispatchers ---


@contextmanager
def dispatching(folder, *options, port=0, program=("-m", "penstock_dispatcher")):
    """Run a dispatcher; yield its process and its address."""
    command = [sys.executable, *program, "--port", str(port)]
    with subprocess.Popen(
        [*command, "--work-dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("listening"), process.stderr.read()
            yield process, line.split("//")[1].strip()
        finally:
            process.kill()


@pytest.mark.slow
def test_without_a_folder_the_process_says_what_a_restart_loses():
    command = [sys.executable, "-m", "penstock_dispatcher", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("listening")
            assert "a restart would lose all jobs" in process.stdout.readline()
        finally:
            process.kill()


class Peer:
    """A peer that sends heartbeats on a stream, and opens it anew when it breaks."""

    def __init__(self, method, beat, every=0.1):
        self.heard = asyncio.Queue()
        self._method, self._beat, self._every = method, beat, every
        self._asking, self._life = [], 0
        self._task = asyncio.create_task(self._live())

    def ask(self, message):
        self._asking.append(message)

    async def _messages(self, life):
        while life == self._life:
            yield self._beat()
            while self._asking and life == self._life:
                yield self._asking.pop()
            await asyncio.sleep(self._every)

    async def _live(self):
        while True:
            self._life += 1
            try:
                async with aclosing(self._method(self._messages(self._life))) as line:
                    async for message in line:
                        self.heard.put_nowait(message)
            except PenstockError as exc:
                if not exc.retryable:
                    self.heard.put_nowait(exc)
            await asyncio.sleep(self._every)

    async def until(self, wanted, seconds=20):
        async with asyncio.timeout(seconds):
            while not wanted(heard := await self.heard.get()):
                pass
            return heard

    async def aclose(self):
        self._task.cancel()
        await asyncio.wait({self._task})


class Mesh:
    """A worker and a reader of one iteration, as messages on a real wire."""

    def __init__(self, api):
        self.api = api
        self.revision, self.reader, self.beats = -1, None, 0

    def worker_heartbeat(self):
        return WorkerHeartbeat("127.0.0.1:1", 1, self.revision, versions=VERSIONS)

    def reader_heartbeat(self):
        self.beats += 1
        return ReaderHeartbeat(self.iteration, "r", self.reader, self.beats)

    async def begin(self, stack):
        definition = encode(Dataset.range(100_000).node).to_bytes()
        dataset = await self.api.register_dataset(definition, VERSIONS)
        wish = opening(VERSIONS, dataset, Mode.DYNAMIC, "j", 1, Codec.NONE)
        self.iteration = (await self.api.open_iteration(wish)).iteration
        self.worker = Peer(self.api.worker_control, self.worker_heartbeat)
        stack.push_async_callback(self.worker.aclose)
        self.loop = Peer(self.api.reader_control, self.reader_heartbeat)
        stack.push_async_callback(self.loop.aclose)
        order = await self.worker.until(lambda o: isinstance(o, Assignment) and o.tasks)
        view = await self.loop.until(lambda view: view.tasks)
        self.revision, self.reader = order.revision, view.reader
        return order.tasks[0]

    async def granted(self, run, position):
        """Ask until there is an answer."""
        async with asyncio.timeout(20):
            while True:
                self.worker.ask(SplitRequest("127.0.0.1:1", 1, run.task, 1, 0, position))
                with suppress(TimeoutError):
                    return await self.worker.until(
                        lambda o: isinstance(o, SplitGrant) and o.position == position, 1
                    )


FAST = ["--worker-timeout", "0.6", "--client-timeout", "0.8", "--heartbeat-interval", "0.1"]
PATIENT = [*FAST, "--worker-timeout", "3", "--client-timeout", "3"]
"""Leases behind which a stream is open again: between two tries it waits for up to a second."""


@pytest.fixture
async def stack():
    async with AsyncExitStack() as stack:
        yield stack


@pytest.mark.slow
async def test_time_in_which_a_dispatcher_was_stopped_expires_no_peer(tmp_path, stack):
    process, address = stack.enter_context(dispatching(tmp_path, *FAST))
    mesh = Mesh(DispatcherClient(await stack.enter_async_context(connect(address))))
    run = await mesh.begin(stack)

    for _ in range(2):
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2.0)  # more than twice either lease
        process.send_signal(signal.SIGCONT)
        beat = mesh.beats + 5
        view = await mesh.loop.until(lambda view, beat=beat: (view.seq or 0) >= beat)

        assert view.status is ReaderStatus.LIVE
        assert view.tasks[run.task].attempt == 1
        assert view.tasks[run.task].worker == "127.0.0.1:1"
    assert (await mesh.granted(run, run.logs[0].stop)).splits


@pytest.mark.slow
async def test_peers_find_a_dispatcher_that_was_killed_and_nothing_was_forgotten(tmp_path, stack):
    port, away = 0, 4.0  # longer than both leases
    with dispatching(tmp_path, *PATIENT) as (process, address):
        port = int(address.rpartition(":")[2])
        mesh = Mesh(DispatcherClient(await stack.enter_async_context(connect(address))))
        run = await mesh.begin(stack)
        at = run.logs[0].stop
        grants = []
        for _ in range(3):
            grants.append(await mesh.granted(run, at))
            at += len(grants[-1].splits)
        process.kill()
    await asyncio.sleep(away)

    began = time.monotonic()
    stack.enter_context(dispatching(tmp_path, *PATIENT, port=port))
    beat = mesh.beats
    view = await mesh.loop.until(lambda view: (view.seq or 0) >= beat)
    redelivered = await mesh.granted(run, grants[0].position)
    following = await mesh.granted(run, at)

    assert time.monotonic() - began < 15
    assert view.status is ReaderStatus.LIVE
    assert (view.reader, view.tasks[run.task].attempt) == (mesh.reader, 1)
    told = [split for grant in grants for split in grant.splits]
    assert redelivered.splits[: len(told)] == tuple(told)
    assert following.splits[0].start == told[-1].stop


FAULTY = """
import sys
from penstock_dispatcher.command import app
from penstock_dispatcher.core.state_machine import DispatcherCore

def faulty(core, now):
    if core.state.jobs:
        raise RuntimeError("a fault")

DispatcherCore._on_tick = faulty
app(sys.argv[1:])
"""


@pytest.mark.slow
async def test_a_process_with_a_fault_says_so_ends_with_1_and_loses_nothing(tmp_path, stack):
    with dispatching(tmp_path, *FAST, program=("-c", FAULTY)) as (process, address):
        api = DispatcherClient(await stack.enter_async_context(connect(address)))
        definition = encode(Dataset.range(10).node).to_bytes()
        dataset = await api.register_dataset(definition, VERSIONS)
        await api.open_iteration(opening(VERSIONS, dataset, Mode.OFF, "j", 1, Codec.NONE))
        said = await asyncio.to_thread(process.stderr.read)
        assert process.wait(20) == 1
    assert "RuntimeError: a fault\n" in said  # the end of a traceback
    assert (
        "This is a fault in Penstock; everything that it acknowledged is on disk: start it again"
        in said
    )
    assert list(kept(tmp_path).jobs) == ["j"]


@pytest.mark.slow
async def test_a_process_that_is_told_to_stop_leaves_nothing_to_repair(tmp_path, stack):
    with dispatching(tmp_path, *FAST) as (process, address):
        mesh = Mesh(DispatcherClient(await stack.enter_async_context(connect(address))))
        await mesh.begin(stack)
        began = time.monotonic()

        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
        assert time.monotonic() - began < 6
    assert sorted(os.listdir(tmp_path)) == [
        "datasets",
        "journal.db",
        "listings",
        "lock",
        "work_dir.key",
    ]
    assert kept(tmp_path).iterations

"""Runners, as threads here and as processes, and a worker as simple as it can be."""

import asyncio
import hashlib
import select
import socket
import threading
from contextlib import asynccontextmanager

import msgspec
import pytest

from penstock.definition import encode
from penstock.frames.compression import decompress
from penstock.frames.frame import unpack
from penstock.ipc.framing import READ_NBYTES, Unpacker, pack
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Checkpoint, Codec
from penstock_worker.runner import arena as arenas
from penstock_worker.runner import main, messages
from penstock_worker.runner.messages import (
    AddSplits,
    CheckpointTaken,
    FrameReady,
    FreeFrames,
    RunEnded,
    RunFailed,
    SplitsNeeded,
    StartRun,
)
from penstock_worker.runner.pool import RunnerPool
from penstock_worker.runner.process import RunnerDied

WITHIN = 20.0


def definition(dataset):
    return encode(dataset.node).to_bytes()


def start_of(
    dataset,
    run=1,
    *,
    state=Checkpoint(),
    logs=(),
    codec=Codec.NONE,
    known=0,
    careful=False,
    consumers=0,
    window=0,
    elsewhere=0,
    skip_errors=False,
):
    name = hashlib.blake2b(definition(dataset)).hexdigest()
    more = (consumers, window, elsewhere, skip_errors)
    return StartRun(run, name, 0, 7, codec, state, logs, known, careful, *more)


def elements_of(memory, made):
    """Read a frame as a reader on another machine would: from a copy."""
    payload = bytes(memory[made.offset : made.offset + made.nbytes])
    if made.codec is not Codec.NONE:
        payload = decompress(payload, made.codec, made.raw_nbytes)
    return unpack(made.layout, payload)


class Heard:
    """What was reported of a run."""

    def __init__(self, start):
        self.reports, self.elements = [], []
        self._run, self._begun = start.run, max(start.checkpoint.number, start.send_from)

    def add(self, report, memory):
        if report.run != self._run:
            return
        self.reports.append(report)
        if isinstance(report, FrameReady):
            assert report.first == self._begun + len(self.elements)
            self.elements += elements_of(memory, report)

    def of(self, kind):
        return [report for report in self.reports if isinstance(report, kind)]

    @property
    def made(self):
        return self.of(FrameReady)

    @property
    def states(self):
        return [report.checkpoint for report in self.of(CheckpointTaken)]

    @property
    def over(self):
        return (
            isinstance(self.reports[-1], (RunEnded, RunFailed, messages.RoomLacking, RunnerDied))
            if self.reports
            else False
        )


class ThreadRunner:
    """A runner that is a thread of this process, behind a real socket and arena."""

    def __init__(self, budget=1 << 22, largest=1 << 24, cache=0):
        self.sealed = arenas.SealedMemory(arenas.span(max(budget, cache), largest))
        arena = arenas.Arena(self.sealed.writable, budget, largest)
        self._sock, far = socket.socketpair()
        self._sock.settimeout(WITHIN)
        self._unpacker = Unpacker(msgspec.msgpack.Decoder(messages.REPORTS))
        self._thread = threading.Thread(target=self._serve, args=(far, arena))
        self._thread.start()

    def _serve(self, far, arena):
        with far:
            main.serve(far, arena)

    def begin(self, dataset, *, definition_bytes=None, **kwargs):
        start = start_of(dataset, **kwargs)
        what = definition(dataset) if definition_bytes is None else definition_bytes
        self.send(messages.LoadDefinition(start.dataset, what))
        self.send(start)
        return Heard(start)

    def send(self, order):
        self._sock.sendall(pack(order))

    def hear(self, heard, until, *, free=True, splits=None):
        """Take reports until *until* says that it is enough."""
        while not until(heard):
            made = []
            for report in self._receive():
                heard.add(report, self.sealed.memory)
                made += [report] if isinstance(report, FrameReady) else []
                if splits and isinstance(report, SplitsNeeded):
                    at = report.position
                    granted = tuple(splits[report.provider][at : at + 1])
                    self.send(AddSplits(report.run, report.provider, at, granted))
            if free and made:
                # At once: with one message for each, both sides could be full, and wait for ever.
                self.send(FreeFrames(made[0].run, tuple(one.offset for one in made)))
        return heard

    def read(self, dataset, *, free=True, splits=None, **kwargs):
        """Run *dataset* to its end."""
        heard = self.begin(dataset, **kwargs)
        return self.hear(heard, lambda heard: heard.over, free=free, splits=splits)

    def stop(self, run=1):
        """Stop a run; return what was reported until then."""
        self.send(messages.StopRun(run))
        reports = []
        while not (reports and isinstance(reports[-1], messages.RunStopped)):
            reports += self._receive()
        return reports

    def quiet(self):
        """Say whether nothing has come that was not taken."""
        return not select.select([self._sock], [], [], 0)[0]

    def close(self):
        self._sock.close()
        self._thread.join(WITHIN)
        assert not self._thread.is_alive()
        self.sealed.close()

    def _receive(self):
        data = self._sock.recv(READ_NBYTES)
        assert data, "the runner hung up"
        return self._unpacker.feed(data)


@pytest.fixture
def thread_runner():
    made = []

    def make(**kwargs):
        made.append(ThreadRunner(**kwargs))
        return made[-1]

    yield make
    for runner in made:
        runner.close()


class Reading(Heard):
    """A run in the pool: what was reported, and the runner."""

    def __init__(self, start, free, splits):
        super().__init__(start)
        self.runner = None
        self._free, self._splits = free, splits
        self._came = asyncio.Event()

    def take(self, runner, report):
        self.add(report, runner.arena)
        if isinstance(report, FrameReady) and self._free:
            runner.send(FreeFrames(report.run, (report.offset,)))
        if isinstance(report, SplitsNeeded) and self._splits is not None:
            at = report.position
            granted = tuple(self._splits[report.provider][at : at + 1])
            runner.send(AddSplits(report.run, report.provider, at, granted))
        self._came.set()

    async def until(self, enough):
        async with asyncio.timeout(WITHIN):
            while not enough(self):
                self._came.clear()
                await self._came.wait()
        return self

    async def end(self):
        return await self.until(lambda reading: reading.over)


class Workplace:
    """Starts runs in a pool."""

    def __init__(self, pool):
        self.pool = pool

    async def begin(self, dataset, *, free=True, splits=None, definition_bytes=None, **kwargs):
        start = start_of(dataset, **kwargs)
        if splits is not None:
            start = msgspec.structs.replace(start, logs=(SplitLog(),) * len(splits))
        reading = Reading(start, free, splits)
        what = definition(dataset) if definition_bytes is None else definition_bytes
        reading.runner = await self.pool.start(what, start, reading.take)
        return reading

    async def read(self, dataset, **kwargs):
        """Run *dataset* to its end, and put the runner back."""
        reading = await (await self.begin(dataset, **kwargs)).end()
        await reading.runner.stop()
        return reading


@asynccontextmanager
async def workplace_of(**settings):
    async with RunnerPool(**settings) as pool:
        yield Workplace(pool)


@pytest.fixture
def working():
    """What makes a place to work, where a test needs other settings or a loop of its own."""
    return workplace_of


@pytest.fixture
async def workplace():
    async with workplace_of() as workplace:
        yield workplace

"""Dispatchers with a journal, and peers of theirs."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from penstock.definition import encode
from penstock.errors import Unavailable
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.control import Assignment, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.types import Codec, Mode
from penstock.runtime.versions import versions
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.service import DispatcherService

VERSIONS = versions()


@asynccontextmanager
async def living(config, **options):
    """A dispatcher whose journal is at hand."""
    journal = await asyncio.to_thread(open_journal, folder_of(config), power=False, **options)
    dispatcher = DispatcherService(config, journal)
    try:
        yield dispatcher, journal
    finally:
        dispatcher.close()
        await journal.aclose()


def folder_of(config):
    return Path(config.work_dir)


class Line:
    """One end of a control stream."""

    def __init__(self, method):
        self._out, self._in = asyncio.Queue(), asyncio.Queue()
        self._reading = asyncio.create_task(self._read(method))

    async def _messages(self):
        while (message := await self._out.get()) is not None:
            yield message

    async def _read(self, method):
        async with aclosing(method(self._messages())) as heard:
            try:
                async for message in heard:
                    self._in.put_nowait(message)
            except Unavailable as exc:
                self._in.put_nowait(exc)
        self._in.put_nowait(None)

    def say(self, message):
        self._out.put_nowait(message)

    async def hear_until(self, wanted):
        async with asyncio.timeout(10):
            while not wanted(heard := await self._in.get()):
                assert heard is not None
            return heard

    async def aclose(self):
        self._reading.cancel()
        await asyncio.wait({self._reading})


async def register(api, dataset):
    return await api.register_dataset(encode(dataset.node).to_bytes(), VERSIONS)


def request(dataset, mode=Mode.DYNAMIC, job="j", repetition=1):
    return OpenIterationRequest(VERSIONS, dataset, mode, job, repetition, Codec.NONE)


def worker_heartbeat(revision=-1, progress=None):
    return WorkerHeartbeat("w:1", 1, revision, progress or {}, versions=VERSIONS)


@asynccontextmanager
async def running(api, iteration):
    """A worker and a reader of *iteration*, of which a task runs."""
    async with aclosing(Line(api.worker_control)) as worker:
        worker.say(worker_heartbeat())
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderHeartbeat(iteration, "r", None, 1))
            order = await worker.hear_until(lambda o: isinstance(o, Assignment) and o.tasks)
            view = await reader.hear_until(lambda view: view.tasks)
            yield worker, reader, order, view

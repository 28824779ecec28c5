"""Dispatchers in place and behind a real port, and peers that call them."""

import asyncio
from contextlib import aclosing, asynccontextmanager

from penstock.definition import encode
from penstock.errors import PenstockError
from penstock.protocol.control import ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.types import Codec, Mode, WorkerId
from penstock.runtime.versions import versions
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import dispatching
from tests.openings import opening

VERSIONS = versions()
FAST = DispatcherConfig(worker_timeout=0.5, heartbeat_interval=0.1, client_timeout=0.6)


@asynccontextmanager
async def ticking(config):
    async with dispatching(config) as dispatcher:
        dispatcher.address = "here:1"
        ticks = asyncio.create_task(dispatcher.tick_forever())
        try:
            yield dispatcher
        finally:
            ticks.cancel()
            await asyncio.wait({ticks})


@asynccontextmanager
async def near(config):
    """A dispatcher in this very process, with no wire at all."""
    async with ticking(config) as dispatcher:
        yield dispatcher, dispatcher


@asynccontextmanager
async def far(config):
    """The same dispatcher behind a real port."""
    async with ticking(config) as dispatcher:
        handlers = dispatcher_handlers(dispatcher)
        async with (
            listening(handlers, host="127.0.0.1", port=0, drain=0.2) as port,
            connect(f"127.0.0.1:{port}") as channel,
        ):
            yield DispatcherClient(channel), dispatcher


class Line:
    """One end of a control stream."""

    def __init__(self, method):
        self._out, self._in = asyncio.Queue(), asyncio.Queue()
        self._reading = asyncio.create_task(self._read(method))

    async def _messages(self):
        while (message := await self._out.get()) is not None:
            yield message

    async def _read(self, method):
        try:
            async with aclosing(method(self._messages())) as heard:
                async for message in heard:
                    self._in.put_nowait(message)
            self._in.put_nowait(StopAsyncIteration())
        except PenstockError as exc:
            self._in.put_nowait(exc)

    def say(self, message):
        self._out.put_nowait(message)

    async def hear(self, seconds=10.0):
        heard = await asyncio.wait_for(self._in.get(), seconds)
        if isinstance(heard, Exception):
            raise heard
        return heard

    async def hear_until(self, wanted, seconds=10.0):
        async with asyncio.timeout(seconds):
            while not wanted(heard := await self.hear()):
                pass
            return heard

    def hang_up(self):
        self._out.put_nowait(None)

    async def aclose(self):
        self._reading.cancel()
        await asyncio.wait({self._reading})


@asynccontextmanager
async def worker_stream(api, worker="w:1", incarnation=1):
    async with aclosing(Line(api.worker_control)) as line:
        line.say(WorkerHeartbeat(WorkerId(worker), incarnation, -1, versions=VERSIONS))
        yield line


@asynccontextmanager
async def reader_stream(api, iteration, session="r"):
    async with aclosing(Line(api.reader_control)) as line:
        line.say(ReaderHeartbeat(iteration, session, None, 1))
        yield line


async def register(api, dataset):
    return await api.register_dataset(encode(dataset.node).to_bytes(), VERSIONS)


def request(dataset, mode=Mode.DYNAMIC, job=None, repetition=1):
    return opening(VERSIONS, dataset, mode, job, repetition, Codec.NONE)

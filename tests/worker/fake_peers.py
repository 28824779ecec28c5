"""A dispatcher, runners and readers as simple as they can be, for a worker between them."""

import asyncio
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import Unavailable, UnknownDataset
from penstock.protocol.control import (
    Assignment,
    SplitGrant,
    SplitRequest,
    TaskAssignment,
    WorkerRefused,
)
from penstock.protocol.data import Ack, FrameHeader, StreamEnd, Subscribe
from penstock.protocol.ranges import NOTHING_ACKED, RangeSet
from penstock.protocol.rounds import GroupsWanted
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    PROTOCOL,
    Codec,
    DatasetId,
    IterationId,
    ReaderId,
    TaskId,
    Versions,
    WorkerId,
)
from penstock.wire.worker import decode_replies
from penstock_worker.config import WorkerConfig
from penstock_worker.control_stream import ControlOutbox, ControlStream
from penstock_worker.runner.messages import (
    AddSplits,
    FrameReady,
    FreeFrames,
    PauseRun,
    RunEnded,
    SplitsNeeded,
)
from penstock_worker.runner.process import RunnerDied
from penstock_worker.runners import ActiveRunners
from penstock_worker.service import WorkerService

WITHIN = 10.0

PLAIN = encode(Dataset.range(1).node).to_bytes()


async def until(condition, what="it"):
    """Wait for something that another task does."""
    deadline = time.monotonic() + WITHIN
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.001)
    return found


class FakeDispatcher:
    """Sends a worker what a test wants, and remembers what it sent."""

    def __init__(self):
        self.beats = []
        self.questions = []
        self.lines = 0
        self.runs = {}
        self.readers = {}
        self.revision = 0
        self.source = range(0)
        self.drawn = 0
        self.logs = {}
        self.fetched = []
        self.definition = PLAIN
        self.refuse = None
        self.absent = self.drain = False
        self.trusting = True
        """Whether it believes that attempts are over."""
        self.requeued = {}
        self._orders = None
        self._incarnation = None

    async def worker_control(self, signals):
        self.lines += 1
        if self.absent:
            raise Unavailable("nobody at 127.0.0.1:1")
        orders = self._orders = asyncio.Queue()
        hearing = asyncio.create_task(self._hear(signals, orders))
        try:
            while (order := await orders.get()) is not None:
                yield order
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def get_definition(self, dataset, python=""):
        self.fetched.append(dataset)
        if self.definition is None:
            raise UnknownDataset(f"nobody registered {dataset}")
        return self.definition

    async def _hear(self, signals, orders):
        async for signal in signals:
            if isinstance(signal, SplitRequest):
                self._answer(signal)
                continue
            self.beats.append(signal)
            self._take_back(signal)
            if signal.versions is not None:
                self._incarnation = signal.incarnation
                self.tell()

    def _take_back(self, beat):
        """Believe that an attempt is over, or its task done."""
        over = {task for task, _ in beat.ended & {(t, r.attempt) for t, r in self.runs.items()}}
        if beat.draining:
            over |= {task for task, progress in beat.progress.items() if progress.done}
        for task in over & self.runs.keys() if self.trusting else ():
            self.requeued[task] = beat.progress[task]
            self.withdraw(task)

    def _answer(self, ask):
        self.questions.append(ask)
        log = self.logs.setdefault(ask.task, [])
        if ask.position == len(log):
            size = min(10, len(self.source) - self.drawn)
            log.append(Split(self.drawn, self.drawn + size) if size else Split(0, 0))
            self.drawn += size
        splits = tuple(log[ask.position :])
        self._orders.put_nowait(SplitGrant(ask.task, ask.attempt, 0, ask.position, splits))

    def assign(self, task, *, attempt=1, streams=0, dataset="d", **kind):
        self.runs[task] = TaskAssignment(
            TaskId(task), 0, attempt, IterationId(1), DatasetId(dataset), 0, Codec.NONE,
            logs=(SplitLog(),) * streams, **kind,
        )  # fmt: skip
        self.tell()

    def withdraw(self, task):
        del self.runs[task]
        self.tell()

    def part(self, reader, status, acked=NOTHING_ACKED):
        self.readers[ReaderId(reader)] = status
        self.runs = {task: replace(run, acked=acked) for task, run in self.runs.items()}
        self.tell()

    def tell(self):
        self.revision += 1
        if self._orders is None:
            return
        order = Assignment(
            self.revision,
            self._incarnation,
            tuple(self.runs.values()),
            dict(self.readers),
            0.2,
            self.drain,
        )
        if self.refuse is not None:
            order = WorkerRefused(self.refuse)
        self._orders.put_nowait(order)

    def hang_up(self):
        self._orders.put_nowait(None)

    def progress(self, task):
        return self.beats[-1].progress.get(task) if self.beats else None

    async def until_done(self, task):
        await until(lambda: (p := self.progress(task)) and p.done, f"the end of task {task}")


class FakeRunner:
    """Makes numbered bytes, *per* elements a frame, as long as it has room for frames."""

    def __init__(self, pool, start, on_report):
        self.pool, self.start, self.on_report = pool, start, on_report
        self.pid = 4711
        self.room = 1 << 20
        self.arena = memoryview(bytearray(self.room))
        self.sent = []
        self.stopped = self.paused = False
        self._places = {}
        self._number = self._position = 0
        self._left = None if start.logs else range(pool.elements)
        self._ended = self._asked = False
        asyncio.get_running_loop().call_soon(self.go)

    def send(self, order):
        self.sent.append(order)
        match order:
            case FreeFrames(offsets=offsets):
                for offset in offsets:
                    del self._places[offset]
            case AddSplits(position=position, splits=splits):
                assert position == self._position
                self._position += len(splits)
                self._asked = False
                self._left = range(splits[-1].start, splits[-1].stop)
                self._ended = not self._left
            case PauseRun():
                self.paused = True
        asyncio.get_running_loop().call_soon(self.go)

    def go(self):
        while self.pool.making and not (self.stopped or self.paused or self._over()):
            if not self._left:
                if not self._asked:
                    self._asked = True
                    self.report(SplitsNeeded(self.start.run, 0, self._position))
                return
            if not self._make():
                return

    def _over(self):
        if self._ended is None:
            return True
        if self._ended or (not self.start.logs and not self._left):
            self._ended = None
            self.report(RunEnded(self.start.run, self._number))
            return True
        return False

    def _make(self):
        count = min(self.pool.per, len(self._left))
        nbytes = count * self.pool.size
        offset = max((o + n for o, n in self._places.items()), default=0)
        if offset + nbytes > self.room:
            offset = 0 if all(o >= nbytes for o in self._places) else None
        if offset is None or sum(self._places.values()) + nbytes > self.pool.budget:
            return False
        self._places[offset] = nbytes
        for i, unit in enumerate(self._left[:count]):
            at = offset + i * self.pool.size
            self.arena[at : at + self.pool.size] = unit.to_bytes(4, "big") * (self.pool.size // 4)
        self._left = self._left[count:]
        first, self._number = self._number, self._number + count
        self.report(
            FrameReady(self.start.run, first, count, offset, nbytes, b"", Codec.NONE, nbytes)
        )
        return True

    def report(self, report):
        if not self.stopped:
            self.on_report(self, report)

    def die(self, signal, *, lacking=""):
        """End as a process does whose memory goes with its last reader."""
        self.report(RunnerDied(self.start.run, signal, None, lacking))
        self.stopped = True
        self.arena = b""

    async def stop(self):
        self.stopped = True
        self.pool.stopped.append(self)


class FakePool:
    def __init__(self, elements=10, per=4, size=4, budget=1 << 20):
        self.elements, self.per, self.size, self.budget = elements, per, size, budget
        self.making = True
        self.runners = []
        self.stopped = []
        self.fails = None

    async def start(self, definition, start, on_report):
        if self.fails is not None:
            raise self.fails
        self.runners.append(FakeRunner(self, start, on_report))
        return self.runners[-1]


class FakeReader:
    """Reads one task as a test tells it to."""

    def __init__(
        self, api, size, *, reader=1, task=1, attempt=1, credit=1 << 20, wants=None, trainer=""
    ):
        self.wants, self.trainer = wants and GroupsWanted(*wants), trainer
        self.api, self.size, self.credit = api, size, credit
        self.reader, self.task, self.attempt = ReaderId(reader), TaskId(task), attempt
        self.subscription = 0
        self.buffer = {}
        self.acked = []
        self.frames = []
        self.recalls = 0
        self.end = None
        self.error = None
        self._requests = None
        self._reading = None

    async def open(self, *, keep=True):
        """Open anew; without *keep* all that is here is requeued."""
        await self.close()
        if not keep:
            self.buffer.clear()
        self.subscription += 1
        self.end = None
        self._requests = asyncio.Queue()
        number = RangeSet.of(*((n, n + 1) for n in self.taken_numbers))
        self._requests.put_nowait(
            Subscribe(
                self.reader,
                self.task,
                self.attempt,
                self.subscription,
                NOTHING_ACKED.union(number),
                RangeSet.of(*((n, n + 1) for n in self.buffer)),
                self.credit,
                self.wants,
                self.trainer,
            )  # fmt: skip
        )
        self._reading = asyncio.create_task(self._read())

    @property
    def taken_numbers(self):
        return [number for number, _ in self.acked]

    async def close(self):
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            self._reading = None

    def half_close(self):
        self._requests.put_nowait(None)

    async def _said(self):
        while (request := await self._requests.get()) is not None:
            yield request

    async def _read(self):
        try:
            async with aclosing(self.api.read(self._said())) as replies:
                async for reply in replies:
                    for one in decode_replies(reply) if isinstance(reply, bytes) else reply:
                        self._arrived(*one)
        except Exception as exc:
            self.error = exc

    def _arrived(self, header, payload):
        match header:
            case FrameHeader(ranges=part, first=first, subscription=subscription):
                assert subscription == self.subscription
                self.frames.append(header)
                elements = self.elements(header, payload)
                self.buffer |= {number: elements[number - first] for number in part}
            case StreamEnd():
                self.end = header
                self.half_close()
            case _:
                self.recalls += 1

    def elements(self, header, payload):
        at = range(0, len(payload), self.size)
        return [int.from_bytes(payload[i : i + 4], "big") for i in at]

    def say(self, acked, credit=0):
        self._requests.put_nowait(Ack(acked, credit))

    def take(self, count=1):
        """Ack the lowest elements here, and return their credit."""
        numbers = sorted(self.buffer)[:count]
        self.acked += [(number, self.buffer.pop(number)) for number in numbers]
        self.say(RangeSet.of(*((n, n + 1) for n in numbers)), len(numbers) * self.size)
        return numbers

    async def until_groups(self, count):
        """Return the first groups that come, each with the number of its element."""
        await until(lambda: len(self.frames) >= count, f"{count} groups")
        return [(header.group, header.first) for header in self.frames]

    async def take_all(self):
        """Take what comes until the stream ends."""
        while True:
            await until(lambda: self.buffer or self.end or self.error, "a frame")
            if self.buffer:
                self.take(len(self.buffer))
            else:
                return [element for _, element in self.acked]


@asynccontextmanager
async def at_work(pool, dispatcher, **settings):
    """A worker at work, without a port."""
    outbox = ControlOutbox()
    worker = WorkerService(
        WorkerId("host:1"),
        WorkerConfig(dispatcher_address="127.0.0.1:1", **settings),
        ActiveRunners(pool, dispatcher),
        outbox,
        versions=Versions(PROTOCOL, "3.11", "0"),
    )
    worker.outbox = outbox
    worker.control = ControlStream(
        dispatcher, "127.0.0.1:1", outbox, heartbeat=worker.heartbeat, handle=worker.handle
    )
    worker.controlling = asyncio.create_task(worker.control.run())
    tasks = [worker.controlling, asyncio.create_task(worker.tick_forever())]
    try:
        yield worker
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await worker.close()

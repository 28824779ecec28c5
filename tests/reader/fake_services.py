"""A dispatcher and a worker that do as a test says, behind real connections."""

import asyncio
import concurrent.futures
import itertools
import json
import threading
from contextlib import AsyncExitStack

import numpy as np

from penstock.errors import Unavailable
from penstock.frames.compression import compress
from penstock.frames.frame import FrameBuilder
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import ReaderView, SaveResult, TaskView
from penstock.protocol.data import Ack, FrameHeader, StreamEnd
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import (
    Codec,
    DatasetId,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock.wire.connection import listening
from penstock.wire.dispatcher import dispatcher_handlers
from penstock.wire.worker import encode_reply, worker_handlers
from tests.reader.produced_task import ProducedTask

HINT_LASTS = 1.0
"""Seconds after which a reader's hint that its loop waits counts no more, as a worker forgets it.
It can cross the elements that the loop then takes. A loop that goes on waiting says so again."""


class Thread:
    """An event loop in a thread, for as long as a test lasts."""

    def __enter__(self):
        ready = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._main(ready),), name="fake-mesh"
        )
        self._thread.start()
        self._loop, self._end = ready.result()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _main(self, ready):
        end = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    def run(self, coro):
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result(20)


class Out:
    """What a worker sends on one stream."""

    def __init__(self):
        self.queue = asyncio.Queue()

    def append(self, message):
        self.queue.put_nowait(message)


class Worker:
    """Serves tasks of elements that the test gave."""

    def __init__(self, codec=Codec.NONE):
        self.sources = {}
        self.failures = {}
        self.codec = codec
        self.withheld = set()
        """Tasks of which nothing is sent."""
        self.streams_opened = 0
        self.changed = lambda: None

    def add(self, task, frames):
        """Serve *frames*, lists of elements, as *task*."""
        sizes = [len(frame) for frame in frames]
        starts = [0, *itertools.accumulate(sizes)]
        packed = {start: self._packed(frame) for start, frame in zip(starts, frames)}
        nbytes = max((len(payload) for _, payload, _, _ in packed.values()), default=0)
        self.sources[task] = ProducedTask(
            task, sum(sizes), sizes, nbytes, split=False, pack=lambda a, b: (b"", (a, packed[a]))
        )

    def copy(self, task):
        """Serve the elements of *task* once more; return the new one's number."""
        known, number = self.sources[task], max(self.sources) + 1
        self.sources[number] = ProducedTask(
            number, known.total, known.sizes, known.nbytes, split=False, pack=known.pack
        )
        return TaskId(number)

    def _packed(self, elements):
        builder = FrameBuilder(1 << 40, 1 << 20)
        assert builder.add(elements) == len(elements)
        layout, columns = builder.take()
        payload = bytearray(layout.nbytes)
        layout.write(columns, memoryview(payload))
        stored = compress(memoryview(payload), self.codec)
        if stored is None:
            return layout.to_bytes(), bytes(payload), Codec.NONE, layout.nbytes
        return layout.to_bytes(), stored, self.codec, layout.nbytes

    async def read(self, requests):
        self.streams_opened += 1
        request = await anext(requests)
        source, out = self.sources[request.task], Out()
        source.hear(request.reader, request, out)
        hearing = asyncio.create_task(self._hear(source, request.reader, requests, out))
        try:
            self.serve(source)
            while True:
                message, payload = await out.queue.get()
                if message is None:
                    raise Unavailable("the stream was cut")
                if isinstance(message, FrameHeader):
                    _, (layout, data, stored, raw) = payload
                    fields = (message.task, message.attempt, message.subscription, message.first)
                    more = (message.count, message.floor, message.ranges, layout, stored, raw)
                    yield encode_reply(FrameHeader(*fields, *more), data)
                else:
                    yield encode_reply(message)
                if isinstance(message, StreamEnd):
                    return
        finally:
            hearing.cancel()
            stream = source.streams.get(request.reader)
            if stream is not None and stream.out is out:
                del source.streams[request.reader]

    async def status(self):
        return b"{}"

    async def _hear(self, source, reader, requests, out):
        async for request in requests:
            assert isinstance(request, Ack)
            source.hear(reader, request, out)
            if not request.acked and not request.credit:
                asyncio.get_running_loop().call_later(HINT_LASTS, source.forget_hint, reader)
            self.serve(source)

    def serve(self, source):
        if source.task in self.withheld:
            return
        source.serve()
        failure = self.failures.get(source.task)
        if source.done or (failure is not None and not source.ready):
            for stream in source.streams.values():
                stream.out.append((StreamEnd(TaskId(source.task), source.attempt, failure), None))
            source.streams.clear()
            self.changed()


class Dispatcher:
    """Knows the worker's tasks, and answers heartbeats while it is not `silent`."""

    def __init__(self, worker, heartbeat_interval=0.2, lease=30.0, fresh=False):
        self.worker, self.fresh = worker, fresh
        self.heartbeat_interval, self.lease = heartbeat_interval, lease
        self.address = None
        self.elsewhere = {}
        """The addresses of tasks that are not at that one."""
        self.registered = []
        self.opened = []
        self.heartbeats = []
        self.answers = []
        self.readers = {}
        self.parted = {}
        self.lost = set()
        self.told_failures = {}
        self.waiting_for = ""
        self.barriers, self.save_results = {}, []
        self.readers_of_the_job = 1
        """How many must come to a barrier."""
        self.failing = None
        """What to answer to the next barrier, if it is to fail."""
        self.tasks = {IterationId(1): list(worker.sources)}
        self.silent = False
        self.refuse = None
        self.revision = 0

    async def register_dataset(self, definition, versions, registration=None):
        self.registered.append(definition)
        return DatasetId(f"dataset{len(self.registered)}")

    async def get_definition(self, dataset, python=""):
        raise NotImplementedError

    async def open_iteration(self, request):
        if self.refuse is not None:
            refuse, self.refuse = self.refuse, None
            raise refuse
        self.opened.append(request)
        iteration = IterationId(len(self.opened) if self.fresh else 1)
        if iteration not in self.tasks:
            tasks = [self.worker.copy(task) for task in self.tasks[IterationId(1)]]
            self.tasks[iteration] = tasks
        return OpenIterationReply(iteration, "job", self.heartbeat_interval, self.lease)

    async def status(self):
        return b"{}"

    def worker_control(self, signals):
        raise NotImplementedError

    async def reader_control(self, heartbeats):
        if self.refuse is not None:
            raise self.refuse
        views = asyncio.Queue()
        self.answers.append(views)
        hearing = asyncio.create_task(self._hear(heartbeats, views))
        try:
            while (view := await views.get()) is not None:
                if isinstance(view, Exception):
                    raise view
                yield view
        finally:
            hearing.cancel()
            self.answers.remove(views)

    async def _hear(self, heartbeats, views):
        async for heartbeat in heartbeats:
            self.heartbeats.append(heartbeat)
            views.session, views.iteration = heartbeat.session, heartbeat.iteration
            for task, report in heartbeat.reports.items():
                source = self.worker.sources[task]
                source.ack(report.acked.ranges)
                self.worker.serve(source)
            status, reader = ReaderStatus.LIVE, heartbeat.reader
            if reader is None:
                reader = self.readers.setdefault(heartbeat.session, ReaderId(len(self.readers) + 1))
            if heartbeat.leaving:
                status = ReaderStatus.LEFT
                for source in self.worker.sources.values():
                    source.part(reader)
                    self.worker.serve(source)
            elif reader in self.parted:
                status = ReaderStatus.EXPIRED
            views.reader = reader
            if not self.silent:
                judged = self.judge(heartbeat)
                views.put_nowait(self.view(views, status, heartbeat.seq))
                if judged:
                    self.push()
        views.put_nowait(None)

    def judge(self, heartbeat):
        """Save when as many readers as there should be are at the barrier."""
        number = len(self.save_results)
        self.barriers[heartbeat.session] = heartbeat
        at = [
            b
            for b in self.barriers.values()
            if b.barrier is not None and b.barrier.number == number
        ]
        if len(at) < self.readers_of_the_job:
            return False
        state = {b.session: {t: h.acked.ranges.spans for t, h in b.reports.items()} for b in at}
        data = b"" if self.failing else json.dumps(list(state.values())).encode()
        self.save_results.append(SaveResult(number, at[0].barrier.label, data, self.failing))
        self.failing = None
        return True

    def view(self, views, status=ReaderStatus.LIVE, heartbeat=None):
        self.revision += 1
        tasks = {
            TaskId(task): TaskView(
                abs(source.attempt),
                None if task in self.lost else self.elsewhere.get(task, self.address),
                self.told_failures.get(task),
            )
            for task in self.tasks[views.iteration]
            if not (source := self.worker.sources[task]).done
        }
        live = status is ReaderStatus.LIVE
        return ReaderView(
            self.revision,
            views.session,
            views.reader,
            status,
            heartbeat,
            tasks if live else {},
            finished=live and not tasks and not self.waiting_for,
            waiting_for=self.waiting_for,
            save_results=tuple(self.save_results[-4:]),
            next_save=len(self.save_results),
        )

    def push(self):
        """Tell every reader what is new."""
        for views in self.answers:
            if not self.silent and hasattr(views, "reader"):
                status = ReaderStatus.EXPIRED if views.reader in self.parted else ReaderStatus.LIVE
                views.put_nowait(self.view(views, status))


class FakeMesh:
    """A worker with tasks, a dispatcher that names them, and a loop that runs both.

    With *fresh*, each opening finds the tasks as they were in the beginning.
    """

    def __init__(self, *tasks, codec=Codec.NONE, **settings):
        self.worker = Worker(codec)
        for number, frames in enumerate(tasks, 1):
            self.worker.add(number, frames)
        self.dispatcher = Dispatcher(self.worker, **settings)
        self.worker.changed = self.dispatcher.push
        self._thread = Thread()
        self._stack = AsyncExitStack()

    def __enter__(self):
        self._thread.__enter__()
        self._thread.run(self._start())
        return self

    def __exit__(self, *_):
        self._thread.run(self._stack.aclose())
        self._thread.__exit__()

    async def _start(self):
        self.workers_line = AsyncExitStack()
        await self._stack.enter_async_context(self.workers_line)
        line = listening(worker_handlers(self.worker), host="127.0.0.1", port=0, drain=0)
        port = await self.workers_line.enter_async_context(line)
        self.dispatcher.address = WorkerId(f"127.0.0.1:{port}")
        self.target = f"127.0.0.1:{await self._start_dispatcher(0)}"

    async def _start_dispatcher(self, port):
        self.dispatchers_line = AsyncExitStack()
        await self._stack.enter_async_context(self.dispatchers_line)
        handlers = dispatcher_handlers(self.dispatcher)
        line = listening(handlers, host="127.0.0.1", port=port, drain=0)
        return await self.dispatchers_line.enter_async_context(line)

    def do(self, fn, *args):
        """Call *fn* in the mesh's loop."""

        async def call():
            return fn(*args)

        return self._thread.run(call())

    def stop_worker(self):
        """Let the worker vanish, and every connection to it."""
        self._thread.run(self.workers_line.aclose())

    def stop_dispatcher(self):
        """Let the dispatcher vanish, and every connection to it."""
        self._thread.run(self.dispatchers_line.aclose())

    def start_dispatcher(self):
        """Let the dispatcher come back, at the same address, with what it had written."""
        self._thread.run(self._start_dispatcher(int(self.target.rpartition(":")[2])))

    def withhold(self, task):
        """Let the worker send nothing of *task*."""
        self.do(self.worker.withheld.add, task)

    def release(self, task):
        """Let the worker send *task* again."""
        self.do(self.worker.withheld.discard, task)
        self.do(self.worker.serve, self.worker.sources[task])

    def leave_unfinished(self, task):
        """Let there be one more element of *task*, which is never made."""
        source = self.worker.sources[task]
        source.held[0] = RangeSet.of((source.total, source.total + 1))
        source.total += 1

    def lose(self, task):
        """Let the dispatcher say that the attempt of *task* is over, and the worker end it."""

        def act():
            self.dispatcher.lost.add(task)
            self.worker.sources[task].end()
            self.dispatcher.push()

        self.do(act)

    def find(self, task):
        """Let the next attempt of *task* begin, by what the readers reported on."""

        def act():
            source = self.worker.sources[task]
            heartbeats = (
                heartbeat for heartbeat in self.dispatcher.heartbeats if task in heartbeat.reports
            )
            reports = {heartbeat.reader: heartbeat.reports[task] for heartbeat in heartbeats}
            source.start({reader: report.buffered for reader, report in reports.items()})
            self.dispatcher.lost.discard(task)
            self.dispatcher.push()

        self.do(act)

    def heard(self, what):
        """Return whether *what* is true of a heartbeat that the dispatcher heard."""
        return any(
            what(heartbeat) for heartbeat in self.dispatcher.heartbeats if 1 in heartbeat.reports
        )

    def give_up(self, reader):
        """Let the dispatcher expire a reader, and the worker free what it held."""

        def act():
            self.dispatcher.parted[reader] = True
            self.dispatcher.readers = {
                session: known if known != reader else ReaderId(1000 + known)
                for session, known in self.dispatcher.readers.items()
            }
            for source in self.worker.sources.values():
                source.part(reader)
            self.dispatcher.push()

        self.do(act)

    def refuse_next_open(self, error):
        self.do(setattr, self.dispatcher, "refuse", error)

    def cut_streams(self):
        """Break every read stream."""

        def act():
            for source in self.worker.sources.values():
                for stream in source.streams.values():
                    stream.out.append((None, None))

        self.do(act)


def frames(count, size, start=0):
    """Return *count* frames of *size* consecutive int64 scalars."""
    return [
        list(np.arange(start + i * size, start + (i + 1) * size, dtype=np.int64))
        for i in range(count)
    ]

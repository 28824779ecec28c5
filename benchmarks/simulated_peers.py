"""Workers and readers that only say what real ones say, for a dispatcher that is measured."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    ReaderHeartbeat,
    ReaderView,
    SplitGrant,
    SplitRequest,
    TaskReport,
    TaskView,
    WorkerCommand,
    WorkerEvent,
    WorkerHeartbeat,
)
from penstock.protocol.loop_time import LinkTraffic, LoopTime, ReaderProcess
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Checkpoint, IterationId, ReaderId, TaskId, WorkerId
from penstock.reader.core.membership import KnownTasks
from penstock.reader.core.task_reports import IN_TURN
from penstock.reader.session.network import LINKS_TOLD
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

EACH = 1000
"""Elements that a task makes, and its readers ack, in a second."""

Heard = TypeVar("Heard")


class Answers:
    """How long answers take."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._asked: dict[object, float] = {}
        self._counts = False

    def asked(self, question: object) -> None:
        """Note that *question* is asked now, unless it waits for its answer already."""
        self._asked.setdefault(question, time.perf_counter())

    def answered(self, question: object) -> None:
        """Note that it is answered now."""
        asked = self._asked.pop(question, None)
        if asked is not None and self._counts:
            self.waits.append(time.perf_counter() - asked)

    def begin(self) -> None:
        """Count from now on."""
        self._counts = True

    def end(self) -> None:
        """Count no more: what waits for an answer now took as long as that, at the least."""
        for question in list(self._asked):
            self.answered(question)
        self._counts = False

    def p99(self) -> float:
        """Return what 99 of 100 answers took at most, in ms."""
        return self.quantile(0.99)

    def quantile(self, share: float) -> float:
        """Return what such a *share* of the answers took at most, in ms."""
        return 1000 * sorted(self.waits)[int(share * (len(self.waits) - 1))]


class Worker:
    """One life of a simulated worker: it acks what it makes, as if readers had it at once.

    It has *stats* bytes to tell of each of its tasks. Between heartbeats are *pause* seconds, and
    none is sent while it does not go.
    """

    def __init__(self, number: int, answers: Answers, stats: int = 0) -> None:
        self.pause, self.goes = 1.0, asyncio.Event()
        self.goes.set()
        self._stats = b"." * stats
        self._me, self._answers = WorkerId(f"10.0.{number // 250}.{number % 250}:7000"), answers
        self._revision, self._began = -1, time.monotonic()
        self._attempts: dict[TaskId, int] = {}
        self._logs: dict[TaskId, int] = {}
        self._profile = WorkerProfile(slots=1)

    @property
    def there(self) -> bool:
        """Whether it was told anything."""
        return self._revision >= 0

    @property
    def runs(self) -> int:
        """How many tasks it was told to run."""
        return len(self._attempts)

    def hear(self, command: WorkerCommand) -> None:
        """Do what the dispatcher says."""
        if isinstance(command, Assignment):
            self._revision = command.revision
            self._attempts = {one.task: one.attempt for one in command.tasks}
            for one in command.tasks:
                at = self._logs.get(one.task, 0)
                self._logs[one.task] = max(at, *(log.stop for log in one.logs))
        elif isinstance(command, SplitGrant):
            self._logs[command.task] = command.position + len(command.splits)
            self._answers.answered(command.task)

    async def events(self) -> AsyncIterator[WorkerEvent]:
        """Say what a worker says."""
        yield self._heartbeat(first=True)
        await asyncio.sleep(random.random())
        for beat in itertools.count(random.randrange(3)):
            yield self._heartbeat()
            for task, attempt in list(self._attempts.items()) if beat % 3 == 0 else ():
                self._answers.asked(task)
                yield SplitRequest(self._me, 1, task, attempt, 0, self._logs[task])
            await _pause(self)

    def _heartbeat(self, *, first: bool = False) -> WorkerHeartbeat:
        made = int((time.monotonic() - self._began) * EACH)
        progress = {
            task: AttemptProgress(attempt, made, AckedSet(made), self._checkpoint(task, made))
            for task, attempt in self._attempts.items()
        }
        return WorkerHeartbeat(
            self._me,
            1,
            self._revision,
            progress,
            versions=versions() if first else None,
            stats=self._stats * len(progress),
            profile=self._profile,
        )

    def _checkpoint(self, task: TaskId, made: int) -> Checkpoint:
        return Checkpoint(made, (self._logs[task],), f'{{"at":{made},"of":[{made},0]}}')


class Reader:
    """A simulated reader, to whom all tasks it is told of send something all the time."""

    def __init__(self, number: int, iteration: IterationId, answers: Answers) -> None:
        self.pause, self.goes = 1.0, asyncio.Event()
        self.goes.set()
        self._session, self._iteration, self._answers = f"s{number}", iteration, answers
        self._me: ReaderId | None = None
        self._tasks, self._turn, self._answered = KnownTasks(), 0, 0
        self._streams: list[tuple[TaskId, TaskView]] = []
        self._began = time.monotonic()
        self._process = ReaderProcess("simulated", number)

    @property
    def reads(self) -> int:
        """How many tasks it knows."""
        return len(self._streams)

    def hear(self, view: ReaderView) -> None:
        """Take in a view."""
        self._me = view.reader
        known = self._tasks.take(view)
        if view.tasks or view.over:
            self._streams = list(known.items())
        if view.seq is not None:  # it answers those before, too
            for seq in range(self._answered + 1, view.seq + 1):
                self._answers.answered((self._session, seq))
            self._answered = max(self._answered, view.seq)

    async def heartbeats(self) -> AsyncIterator[ReaderHeartbeat]:
        """Say what a reader says."""
        await asyncio.sleep(random.random())
        for seq in itertools.count(1):
            self._answers.asked((self._session, seq))
            yield self._heartbeat(seq)
            await _pause(self)

    def _heartbeat(self, seq: int) -> ReaderHeartbeat:
        had = int((time.monotonic() - self._began) * EACH)
        mine = RangeSet(((had + 50, had + 60),))
        report = TaskReport(1, AckedSet(had, mine), RangeSet(((had + 100, had + 200),)))
        links = tuple(
            LinkTraffic(seen.worker, "grpc", had, had * 100, had * 200, 1e5, "lz4", 10_000, 1 << 20)
            for _, seen in self._streams[:LINKS_TOLD]
            if seen.worker is not None
        )
        return ReaderHeartbeat(
            self._iteration,
            self._session,
            self._me,
            seq,
            dict.fromkeys(self._told(), report),
            consumed=had,
            process=self._process,
            transports={"grpc": self.reads},
            loop=LoopTime(seq, float(seq), 0.1, 0.001, 0.01),
            links=links,
            tasks_as_of=self._tasks.as_of,
            unacked=100 * self.reads,
        )

    def _told(self) -> list[TaskId]:
        """Return what is reported: what no worker runs, and of what goes on some in turn."""
        waits = [task for task, seen in self._streams if seen.worker is None]
        turn, self._turn = self._turn, (self._turn + IN_TURN) % max(1, self.reads)
        return waits + [task for task, _ in (self._streams * 2)[turn : turn + IN_TURN]]


async def _pause(peer: Worker | Reader) -> None:
    await asyncio.sleep(peer.pause)
    await peer.goes.wait()


async def _hear(stream: AsyncIterator[Heard], hear: Callable[[Heard], None]) -> None:
    async for message in stream:
        hear(message)


async def work(address: str, worker: Worker) -> None:
    """Be *worker*, by a connection of its own, until cancelled."""
    async with connect(address) as channel:
        await _hear(DispatcherClient(channel).worker_control(worker.events()), worker.hear)


async def read(address: str, reader: Reader) -> None:
    """Be *reader*, by a connection of its own, until cancelled."""
    async with connect(address) as channel:
        await _hear(DispatcherClient(channel).reader_control(reader.heartbeats()), reader.hear)

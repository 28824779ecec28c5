"""What does a dispatcher cost, and how fast does it answer, with many workers and readers?

A real dispatcher, in a process of its own, with its journal. Workers, and half as many readers, are
simulated by this process, each with a connection of its own: a heartbeat a second as real ones
send it, with a new checkpoint, and every third second a worker uses up its split and asks for the
next one. All of them share one DYNAMIC job, so each reader reads a task of each worker. Each of
these goes on all the time, so a reader reports on as many tasks as it ever does. Before that the
workers are there without readers.

It is counted when all readers know all tasks. How busy this process is stands beside the figures:
where it fills a core, answers wait for it, and not for the dispatcher.

Then how long it takes to open jobs where there are many, and what the dispatcher needs for them.
``--workers 10 50`` asks of other numbers than 10, 100, 200 and 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import uvloop
from measure import Figure, show

from penstock import Dataset
from penstock.definition import encode
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    OpenIterationRequest,
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
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.reader_process import ReaderProcess
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    DatasetId,
    IterationId,
    Mode,
    ReaderId,
    TaskId,
    WorkerId,
)
from penstock.reader.core.known_tasks import KnownTasks
from penstock.reader.core.task_reports import IN_TURN
from penstock.reader.session.network import LINKS_TOLD
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster import LocalCluster
from penstock_dispatcher.config import DispatcherConfig

SOURCE = Dataset.range(10**15)

EACH = 1000
"""Elements that a task makes, and its readers ack, in a second."""

WITHIN = 120.0
"""Seconds within which all peers are there."""

Heard = TypeVar("Heard")

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """How long it is looked at."""

    settle: float = 3.0
    """Seconds that pass when the peers are there, before they count."""
    counted: float = 10.0
    jobs: int = 10_000
    """How many there are in the end."""


SHORT = Load(2.0, 4.0, 2_000)


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
        return 1000 * sorted(self.waits)[int(0.99 * (len(self.waits) - 1))]


class Worker:
    """One life of a simulated worker: it acks what it makes, as if readers had it at once."""

    def __init__(self, number: int, answers: Answers) -> None:
        self._me, self._answers = WorkerId(f"10.0.{number // 250}.{number % 250}:7000"), answers
        self._revision, self._began = -1, time.monotonic()
        self._attempts: dict[TaskId, int] = {}
        self._logs: dict[TaskId, int] = {}
        self._profile = WorkerProfile(slots=1)

    @property
    def there(self) -> bool:
        """Whether it was told anything."""
        return self._revision >= 0

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
            for task, attempt in self._attempts.items() if beat % 3 == 0 else ():
                self._answers.asked(task)
                yield SplitRequest(self._me, 1, task, attempt, 0, self._logs[task])
            await asyncio.sleep(1.0)

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
            profile=self._profile,
        )

    def _checkpoint(self, task: TaskId, made: int) -> Checkpoint:
        return Checkpoint(made, (self._logs[task],), f'{{"at":{made},"of":[{made},0]}}')


class Reader:
    """A simulated reader, to whom all tasks it is told of send something all the time."""

    def __init__(self, number: int, iteration: IterationId, answers: Answers) -> None:
        self._session, self._iteration, self._answers = f"s{number}", iteration, answers
        self._me: ReaderId | None = None
        self._tasks, self._turn = KnownTasks(), 0
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
        if view.seq is not None:
            self._answers.answered((self._session, view.seq))

    async def heartbeats(self) -> AsyncIterator[ReaderHeartbeat]:
        """Say what a reader says."""
        await asyncio.sleep(random.random())
        for seq in itertools.count(1):
            self._answers.asked((self._session, seq))
            yield self._heartbeat(seq)
            await asyncio.sleep(1.0)

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


async def _hear(stream: AsyncIterator[Heard], hear: Callable[[Heard], None]) -> None:
    async for message in stream:
        hear(message)


async def _work(address: str, worker: Worker) -> None:
    async with connect(address) as channel:
        await _hear(DispatcherClient(channel).worker_control(worker.events()), worker.hear)


async def _read(address: str, reader: Reader) -> None:
    async with connect(address) as channel:
        await _hear(DispatcherClient(channel).reader_control(reader.heartbeats()), reader.hear)


async def _until(happens: Callable[[], bool]) -> float:
    """Return after how many seconds it happens."""
    began = time.perf_counter()
    while not happens():
        if time.perf_counter() > began + WITHIN:
            raise SystemExit(f"the peers are not there within {WITHIN:g} s")
        await asyncio.sleep(0.1)
    return time.perf_counter() - began


class Process:
    """A process that is measured."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._since = self._spent()

    def cores(self) -> float:
        """Return how many cores it kept busy since this was asked before."""
        before, self._since = self._since, self._spent()
        return (self._since[1] - before[1]) / (self._since[0] - before[0])

    def mib(self) -> float:
        """Return the MiB of memory that it uses."""
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def _spent(self) -> tuple[float, float]:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return time.perf_counter(), (int(fields[11]) + int(fields[12])) / TICKS


async def _opened(client: DispatcherClient, dataset: DatasetId, job: str) -> IterationId:
    request = OpenIterationRequest(versions(), dataset, Mode.DYNAMIC, job, 1, Codec.NONE)
    return (await client.open_iteration(request)).iteration


async def loaded(address: str, pid: int, workers: int, load: Load) -> list[Figure]:
    """Have so many workers, and half as many readers, for a while."""
    splits, views = Answers(), Answers()
    async with connect(address) as channel:
        client = DispatcherClient(channel)
        dataset = await client.register_dataset(encode(SOURCE.node).to_bytes(), versions())
        iteration = await _opened(client, dataset, "shared")
    dispatcher, here = Process(pid), Process(os.getpid())
    working = [Worker(number, splits) for number in range(workers)]
    talking = [asyncio.ensure_future(_work(address, worker)) for worker in working]
    await _until(lambda: all(worker.there for worker in working))
    await asyncio.sleep(load.settle)
    dispatcher.cores()
    await asyncio.sleep(load.counted / 2)
    unread = dispatcher.cores()
    reading = [Reader(number, iteration, views) for number in range(workers // 2)]
    talking += [asyncio.ensure_future(_read(address, reader)) for reader in reading]
    took = await _until(lambda: all(reader.reads == workers for reader in reading))
    await asyncio.sleep(load.settle)
    cores, busy = await _counted((splits, views), (dispatcher, here), load.counted)
    if ended := [one for one in talking if one.done()]:
        raise SystemExit(f"{len(ended)} of the peers ended: {ended[0].exception()!r}")
    for one in talking:
        one.cancel()
    await asyncio.gather(*talking, return_exceptions=True)
    name = f"{workers:,} workers and {workers // 2:,} readers"
    return [
        _figure(f"{workers:,} workers, nobody reads: cores", unread, "cores"),
        _figure(f"{name}: cores", cores, "cores"),
        _figure(f"{name}: p99 of a split", splits.p99(), "ms"),
        _figure(f"{name}: p99 of a reader's heartbeat", views.p99(), "ms"),
        _figure(f"{name}: answers", len(splits.waits) + len(views.waits), "answers"),
        _figure(f"{name}: until each reader knows all tasks", took, "s"),
        _figure(f"{name}: memory", dispatcher.mib(), "MiB"),
        _figure(f"{name}: cores of the peers", busy, "cores"),
    ]


async def _counted(
    answers: tuple[Answers, Answers], processes: tuple[Process, Process], seconds: float
) -> tuple[float, float]:
    """Have answers timed for so long; return how many cores each process kept busy meanwhile."""
    for one in answers:
        one.begin()
    for process in processes:
        process.cores()
    await asyncio.sleep(seconds)
    busy = processes[0].cores(), processes[1].cores()
    for one in answers:
        one.end()
    return busy


async def many_jobs(address: str, pid: int, load: Load) -> list[Figure]:
    """Open jobs, each with a name; look at the last tenth of them, and at the dispatcher then."""
    took: list[float] = []
    async with connect(address) as channel:
        client = DispatcherClient(channel)
        dataset = await client.register_dataset(encode(SOURCE.node).to_bytes(), versions())
        for number in range(load.jobs):
            began = time.perf_counter()
            await _opened(client, dataset, f"job {number}")
            took.append(1000 * (time.perf_counter() - began))
    dispatcher = Process(pid)
    await asyncio.sleep(load.counted)
    tenth, name = load.jobs // 10, f"{load.jobs:,} jobs"
    first, last = sorted(took[:tenth]), sorted(took[-tenth:])
    return [
        Figure(
            f"{name}: one of the first tenth opens", first[tenth // 2], first[0], first[-1], "ms"
        ),
        Figure(f"{name}: one of the last tenth opens", last[tenth // 2], last[0], last[-1], "ms"),
        _figure(f"{name}: cores, when nobody reads", dispatcher.cores(), "cores"),
        _figure(f"{name}: memory", dispatcher.mib(), "MiB"),
    ]


def _figure(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, value, value, unit)


@contextmanager
def dispatching() -> Iterator[tuple[str, int]]:
    """Start a dispatcher; give its address and process id."""
    config = DispatcherConfig(worker_timeout=60.0, client_timeout=120.0)  # none is lost by load
    with LocalCluster(0, dispatcher=config) as cluster:
        pid = cluster.dispatcher.pid
        assert pid is not None
        yield cluster.dispatcher.address, pid


def main() -> None:
    """Measure one number of workers after the other, then jobs."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=5, help="fewer than 5: a shorter look")
    parser.add_argument("--workers", type=int, nargs="*", default=(10, 100, 200, 1000))
    options = parser.parse_args()
    load = Load() if options.runs >= 5 else SHORT
    figures: list[Figure] = []
    for workers in options.workers:
        with dispatching() as (address, pid):
            figures += uvloop.run(loaded(address, pid, workers, load))
    with dispatching() as (address, pid):
        figures += uvloop.run(many_jobs(address, pid, load))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

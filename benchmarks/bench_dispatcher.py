"""What does a dispatcher cost, and how fast does it answer, with many workers and readers?

A real dispatcher, in a process of its own, with its journal. Workers, and half as many readers, are
simulated by this process, each with a connection of its own: a heartbeat a second as real ones
send it, with a new checkpoint, and every third second a worker uses up its split and asks for the
next one. All of them share one DYNAMIC job, so each reader reads a task of each worker. Each of
these goes on all the time, so a reader reports on as many tasks as it ever does. Before that the
workers are there without readers.

It is counted when all readers know all tasks. This process, which keeps what 500 processes keep of
1,000 tasks each, collects no garbage meanwhile: it would stop all of them at once. How busy it is
stands beside the figures: where it fills a core, answers wait for it, and not for the dispatcher.

Then how long it takes to open jobs where there are many, and what the dispatcher needs for them.
``--workers 10 50`` asks of other numbers than 10, 100, 200 and 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from measure import Figure, show
from simulated_peers import Answers, Reader, Worker, read, work

from penstock import Dataset
from penstock.definition import encode
from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.types import Codec, DatasetId, IterationId, Mode
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster import LocalCluster
from penstock_dispatcher.config import DispatcherConfig

SOURCE = Dataset.range(10**15)

WITHIN = 120.0
"""Seconds within which all peers are there."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """How long it is looked at."""

    settle: float = 3.0
    """Seconds that pass when the workers are there, before they count."""
    drained: float = 12.0
    """The same when the readers are: what they asked meanwhile is answered late."""
    counted: float = 10.0
    jobs: int = 10_000
    """How many there are in the end."""


SHORT = Load(2.0, 5.0, 4.0, 2_000)


async def until(happens: Callable[[], bool]) -> float:
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

    def cpu(self) -> float:
        """Return how many seconds of a core it used since this was asked before."""
        before, self._since = self._since, self._spent()
        return self._since[1] - before[1]

    def mib(self) -> float:
        """Return the MiB of memory that it uses."""
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def _spent(self) -> tuple[float, float]:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return time.perf_counter(), (int(fields[11]) + int(fields[12])) / TICKS


async def opened(client: DispatcherClient, dataset: DatasetId, job: str) -> IterationId:
    """Open a job of that name, and return its pass."""
    request = OpenIterationRequest(
        versions(), JobParameters(dataset, Mode.DYNAMIC, Codec.NONE), job, 1
    )
    return (await client.open_iteration(request)).iteration


async def loaded(address: str, pid: int, workers: int, load: Load) -> list[Figure]:
    """Have so many workers, and half as many readers, for a while."""
    splits, views = Answers(), Answers()
    async with connect(address) as channel:
        client = DispatcherClient(channel)
        dataset = await client.register_dataset(encode(SOURCE.node).to_bytes(), versions())
        iteration = await opened(client, dataset, "shared")
    dispatcher, here = Process(pid), Process(os.getpid())
    working = [Worker(number, splits) for number in range(workers)]
    talking = [asyncio.ensure_future(work(address, worker)) for worker in working]
    await until(lambda: all(worker.there for worker in working))
    await asyncio.sleep(load.settle)
    dispatcher.cores()
    await asyncio.sleep(load.counted / 2)
    unread = dispatcher.cores()
    reading = [Reader(number, iteration, views) for number in range(workers // 2)]
    talking += [asyncio.ensure_future(read(address, reader)) for reader in reading]
    took = await until(lambda: all(reader.reads == workers for reader in reading))
    await asyncio.sleep(load.drained)
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
            await opened(client, dataset, f"job {number}")
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
    gc.disable()
    for workers in options.workers:
        with dispatching() as (address, pid):
            figures += uvloop.run(loaded(address, pid, workers, load))
    with dispatching() as (address, pid):
        figures += uvloop.run(many_jobs(address, pid, load))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

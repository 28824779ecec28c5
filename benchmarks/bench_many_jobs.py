"""What does a dispatcher cost when fifty jobs are read at once, by four readers each?

A real dispatcher, in a process of its own, with its journal, has 20 workers, 50 jobs and 200
readers, which this process simulates: so each worker runs 50 tasks, and each reader reads 20. It is
counted what all of it takes to start, in one go; what it takes then, with a heartbeat a second; and
what one heartbeat takes, of readers alone and of workers alone, when these send more of them.
``--jobs 5 --workers 10`` asks of other numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Sequence

import msgspec
import uvloop
from bench_dispatcher import SOURCE, Process, dispatching, opened, until
from measure import Figure, show
from simulated_peers import Answers, Reader, Worker, read, work

from penstock.definition import encode
from penstock.protocol.types import IterationId
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

READERS = 4
"""Of each job."""

STATS = 300
"""Bytes that a worker's heartbeat has of each task for the page."""

HURRIED = {Reader: 0.4, Worker: 0.25}
"""Seconds between heartbeats of those that hurry: not more than a dispatcher has time for."""

SETTLE = 5.0
"""Seconds that pass when all are there, before it counts."""

DRAIN = 3.0
"""Seconds in which the dispatcher answers what is left of a hurry."""


class Mesh:
    """Workers that run everything, and readers of so many jobs, at the dispatcher *pid*."""

    def __init__(self, address: str, pid: int, workers: int, jobs: int) -> None:
        self.dispatcher, self.views = Process(pid), Answers()
        self._address, self._jobs, self._splits = address, jobs, Answers()
        self._working = [Worker(number, self._splits, STATS) for number in range(workers)]
        self._reading: list[Reader] = []
        self._talking: list[asyncio.Future[None]] = []

    async def start(self) -> tuple[float, float]:
        """Start everything; return the seconds until all is known, and the CPU seconds of that."""
        self._talk([work(self._address, worker) for worker in self._working])
        await until(lambda: all(worker.there for worker in self._working))
        iterations = await self._open()
        self._reading = [
            Reader(number, iteration, self.views)
            for number, iteration in enumerate(iterations * READERS)
        ]
        self.dispatcher.cpu()
        self._talk([read(self._address, reader) for reader in self._reading])
        tasks = len(self._working)
        took = await until(lambda: all(reader.reads == tasks for reader in self._reading))
        took += await until(lambda: all(one.runs == self._jobs for one in self._working))
        return took, self.dispatcher.cpu()

    async def usual(self, seconds: float) -> float:
        """Have a heartbeat a second of all, and their answers timed; return how many cores."""
        self.views.begin()
        self.dispatcher.cpu()
        await asyncio.sleep(seconds)
        busy = self.dispatcher.cpu() / seconds
        self.views.end()
        return busy

    async def hurried(self, kind: type[Reader | Worker], seconds: float) -> float:
        """Have peers of one *kind* hurry, and the others wait; return the CPU ms of a heartbeat."""
        peers: Sequence[Reader | Worker] = [*self._reading, *self._working]
        for peer in peers:
            if isinstance(peer, kind):
                peer.pause = HURRIED[kind]
            else:
                peer.goes.clear()
        await asyncio.sleep(DRAIN)
        heard, _ = await self._heard(kind), self.dispatcher.cpu()
        await asyncio.sleep(seconds)
        spent, heard = self.dispatcher.cpu(), await self._heard(kind) - heard
        for peer in peers:
            peer.pause = 1.0
            peer.goes.set()
        await asyncio.sleep(DRAIN)
        return 1000 * spent / heard

    async def stop(self) -> None:
        """End everything."""
        if ended := [one for one in self._talking if one.done()]:
            raise SystemExit(f"{len(ended)} of the peers ended: {ended[0].exception()!r}")
        for one in self._talking:
            one.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    def _talk(self, conversations: Sequence[object]) -> None:
        self._talking += [asyncio.ensure_future(one) for one in conversations]  # type: ignore[arg-type,misc]

    async def _open(self) -> list[IterationId]:
        async with connect(self._address) as channel:
            client = DispatcherClient(channel)
            dataset = await client.register_dataset(encode(SOURCE.node).to_bytes(), versions())
            return [await opened(client, dataset, f"job {n}") for n in range(self._jobs)]

    async def _heard(self, kind: type[Reader | Worker]) -> int:
        """Return how many heartbeats of one kind were heard: what was sent may be under way."""
        async with connect(self._address) as channel:
            stats = msgspec.json.decode(await DispatcherClient(channel, timeout=30.0).status())
        name = "reader_heartbeats" if kind is Reader else "worker_heartbeats"
        return int(stats["counts"][name])


async def loaded(address: str, pid: int, workers: int, jobs: int, seconds: float) -> list[Figure]:
    """Return what so many workers and jobs take; it is counted for some *seconds*."""
    mesh = Mesh(address, pid, workers, jobs)
    took, spent = await mesh.start()
    await asyncio.sleep(SETTLE)
    busy = await mesh.usual(seconds)
    a_reader = await mesh.hurried(Reader, seconds)
    a_worker = await mesh.hurried(Worker, seconds)
    await mesh.stop()
    name = f"{workers:,} workers, {jobs:,} jobs, {jobs * READERS:,} readers"
    found = [
        ("until all know all tasks", took, "s"),
        ("processor time of that", spent, "s"),
        ("cores", busy, "cores"),
        ("p50 of a reader's heartbeat", mesh.views.quantile(0.5), "ms"),
        ("p99 of a reader's heartbeat", mesh.views.p99(), "ms"),
        ("processor time of a reader's heartbeat", a_reader, "ms"),
        (f"processor time of a worker's heartbeat of {jobs} tasks", a_worker, "ms"),
        ("memory", mesh.dispatcher.mib(), "MiB"),
    ]
    return [Figure(f"{name}: {what}", value, value, value, unit) for what, value, unit in found]


def main() -> None:
    """Measure one mesh."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=5, help="fewer than 5: a shorter look")
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=50)
    options = parser.parse_args()
    gc.disable()  # this process keeps what hundreds of processes keep
    seconds = 10.0 if options.runs >= 5 else 4.0
    with dispatching() as (address, pid):
        figures = uvloop.run(loaded(address, pid, options.workers, options.jobs, seconds))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

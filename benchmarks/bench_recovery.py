"""How long does a dispatcher take to go on after `kill -9`, and what does it keep on disk?

Histories are written by a process that kills itself at the end: one of a million splits that 100
tasks were given and have done, with 100 tasks still running; the same with 100 000 finished jobs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Figure, arguments, in_turn, measure, show

from penstock.protocol.calls import JobParameters
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint, Codec, IterationId, Mode, TaskId, WorkerId
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal.journal import DurableJournal, open_journal

TASKS = 100
SPLITS = 1_000_000
JOBS = 100_000
AT_ONCE = 50
"""Facts of one turn of the event loop."""

STATE = '{"v":1,"k":"shuffle","buffer":[' + ",".join(map(str, range(0, 60_000, 300))) + "]}"
"""About 1 KB, which is large for an engine's state."""

PARAMETERS = JobParameters("d", Mode.DYNAMIC, Codec.NONE)


class _Deaf:
    """Hears nothing: there is room."""

    def full(self, error: Exception) -> None:
        """Never happens here."""
        raise error

    def relieved(self) -> None:
        """Never happens here."""


def _history(splits: int, jobs: int) -> Iterator[f.Fact]:
    """Yield *jobs* finished jobs, then one whose tasks were given *splits* splits."""
    yield f.HistoryStarted(1_000_000)
    yield DatasetRegistered("d", (SplitProviderSpec(("s",), 10 * (splits + TASKS)),), "")
    number = 1_000_001
    for job in range(jobs):
        name = f"job-{job:06d}-of-somebody"
        yield f.JobCreated(name, PARAMETERS, job, private=False)
        yield f.IterationOpened(IterationId(number), name, 0, job, {})
        yield f.IterationFinished(IterationId(number))
        yield f.IterationDeleted(IterationId(number))
        number += 1
    yield f.JobCreated("live", PARAMETERS, 1, private=False)
    home = IterationId(number)
    yield f.IterationOpened(home, "live", 0, 1, {})
    worker = WorkerId("worker:1")
    yield f.WorkerRegistered(worker, 1)
    tasks = [TaskId(number + 1 + index) for index in range(TASKS)]
    for index, task in enumerate(tasks):
        yield f.TaskCreated(task, home, index)
        yield f.AttemptStarted(task, 1, worker, AckedSet(), {})
    for at in range(splits):
        task = tasks[at % TASKS]
        yield f.SplitsGranted(task, 0, (Split(10 * at, 10 * at + 10),))
        if at // TASKS % 10 == 9:  # a state a second, a split in a tenth
            place = at // TASKS
            yield f.CheckpointSaved(task, Checkpoint(10 * place, (place,), STATE))


async def _write(folder: Path, splits: int, jobs: int) -> None:
    """Write a history as a dispatcher does, and die as one may."""
    journal = open_journal(folder, power=False)
    journal.attach(_Deaf())
    for count, fact in enumerate(_history(splits, jobs)):
        journal.state.apply(fact)
        journal.append(fact)
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
    written = asyncio.Event()
    journal.call_when_durable(written.set)
    await written.wait()
    os.kill(os.getpid(), signal.SIGKILL)


def _made(folder: Path, splits: int, jobs: int) -> Path:
    subprocess.run([sys.executable, __file__, str(folder), str(splits), str(jobs)], check=False)
    return folder


def _recovery(folder: Path) -> float:
    """Return the milliseconds until a core can decide again."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch) / "work"))
        began = time.perf_counter()
        journal = open_journal(copy, power=False)
        DispatcherCore(journal.state, CoreSettings(), 0.0, 0.0)
        took = time.perf_counter() - began
        asyncio.run(_closed(journal))
        return 1000 * took


def _start(folder: Path) -> float:
    """Return the milliseconds from the start of a process until it listens."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder, Path(scratch) / "work")
        command = [sys.executable, "-m", "penstock_dispatcher", "--work-dir", str(copy)]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening")
            took = time.perf_counter() - began
            process.kill()
        return 1000 * took


async def _closed(journal: DurableJournal) -> None:
    journal.attach(_Deaf())
    await journal.aclose()


def _snapshot(folder: Path) -> Iterator[Figure]:
    """Measure snapshots with all of *folder* behind them, and one new split before each."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch) / "work"))
        journal = open_journal(copy, power=False)
        books, changes, store = journal.state, journal._changes, journal._store
        task = next(iter(books.owners))
        taken: list[float] = []

        def snapshot() -> float:
            fact = f.CheckpointSaved(task, Checkpoint(10_000_000, (10_000,), STATE))
            books.apply(fact)
            changes.note(fact)
            began = time.perf_counter()
            snapshot = changes.snapshot()
            taken.append(1000 * (time.perf_counter() - began))
            store.compact(snapshot)
            return 1000 * (time.perf_counter() - began)

        both = measure("a snapshot, taken and written", "ms", snapshot, 20)
        yield Figure(
            "a snapshot, taken on the loop", sorted(taken)[10], min(taken), max(taken), "ms"
        )
        yield both
        asyncio.run(_closed(journal))


def _size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def main() -> None:
    """Write the histories, then recover from copies of them in turn."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=7)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        short = _made(root / "short", TASKS * 10, 0)
        long = _made(root / "long", SPLITS, 0)
        wide = _made(root / "wide", SPLITS, JOBS)
        names = {
            f"{TASKS * 10:,} splits": short,
            f"{SPLITS:,} splits": long,
            f"{SPLITS:,} splits, {JOBS:,} jobs": wide,
        }
        figures = [
            Figure(f"on disk: {name}", _size(folder), _size(folder), _size(folder), "MB")
            for name, folder in names.items()
        ]
        for what, run in (("recovery", _recovery), ("process", _start)):
            candidates = [
                (f"{what}: {name}", lambda run=run, at=folder: run(at))
                for name, folder in names.items()
            ]
            figures += in_turn(candidates, "ms", options.runs)
        figures += _snapshot(wide)
    show(question, figures, options.json)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        asyncio.run(_write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
    else:
        main()

"""What is read from a dispatcher that is killed at a write, and what must be true then."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.mesh import HOST, free_port
from chaos.writes.preload import Hit, How, Order
from chaos.writes.supervised import Supervised, Warm
from penstock.dataset.dataset import Dataset
from penstock.errors import Unavailable
from penstock.protocol.calls import PreemptionReport
from penstock.service import CrossTrainerCache
from penstock.wire.connection import connect
from penstock.wire.dispatcher import REPORT
from penstock_cluster.cli.status import fetch
from penstock_dispatcher.journal.store import Store
from penstock_worker import WorkerConfig, WorkerServer

FILES, LINES = 8, 6
"""How many files are read, and how many lines each has."""

LEASE = 90.0
"""Seconds that peers may be silent: nobody is given up while a dispatcher is started three times.

That took 30 s on a machine whose cores other processes kept busy.
"""

BEAT = 0.05

KEPT = {"datasets", "journal.db", "listings", "lock", "preemption.jsonl", "work_dir.key"}
"""What a dispatcher that ended has in its folder."""


@dataclass(frozen=True, slots=True)
class Kill:
    """When a dispatcher is killed: at the call *at*, and once more *again* calls later."""

    at: int
    how: How
    again: int = 0

    def __str__(self) -> str:
        more = f", and {self.again} later" if self.again else ""
        return f"{self.how.name.lower()} call {self.at}{more}"


@dataclass
class Played:
    """What came of a run."""

    hit: Hit | None = None
    """The call at which the dispatcher was killed, if there were so many."""
    kills: int = 0
    calls: int = 0
    writes: int = 0
    problems: list[str] = field(default_factory=list)


def write_files(folder: Path) -> list[int]:
    """Write the files that are read; return the numbers in them."""
    folder.mkdir()
    for start in range(0, FILES * LINES, LINES):
        lines = "".join(f"{number}\n" for number in range(start, start + LINES))
        (folder / f"part-{start:03}").write_text(lines)
    return list(range(FILES * LINES))


def play(warm: Warm, order: Order, kill: Kill, work_dir: Path, folder: Path) -> Played:
    """Have a dispatcher killed on *work_dir*, which begins empty; other files are in *folder*."""
    shutil.rmtree(work_dir, ignore_errors=True)
    folder.mkdir()
    files = folder / "files"
    numbers = write_files(files)
    played = Played()
    settings = {
        "host": HOST,
        "port": free_port(),
        "work_dir": str(work_dir),
        "worker_timeout": LEASE,
        "client_timeout": LEASE,
        "heartbeat_interval": BEAT,
    }
    dispatcher = Supervised(warm, settings, folder)
    address = f"{HOST}:{settings['port']}"
    order.give(kill.at, kill.how, kill.again)
    try:
        for problem in _lives(dispatcher, address, files, numbers):
            played.problems.append(problem)
        if dispatcher.problem:
            played.problems.append(f"the dispatcher: {dispatcher.problem}")
        if not played.problems:
            played.problems += left_in(work_dir)
    except Exception as exc:  # noqa: BLE001  it is what is looked for
        log = dispatcher.log.read_text()[-1500:] if dispatcher.log.exists() else ""
        played.problems += [
            f"{type(exc).__name__}: {exc}",
            f"the dispatcher: {dispatcher.problem}, after {dispatcher.starts} starts:\n{log}",
        ]
    finally:
        played.hit, played.kills = order.hit, order.kills
        played.calls, played.writes = order.calls, order.writes
        dispatcher.close()
    return played


def _lives(dispatcher: Supervised, address: str, files: Path, numbers: list[int]) -> Iterator[str]:
    """Read, from one start to an end in order, and on from another start; yield what is wrong."""
    dispatcher.start()
    with WorkerServer(WorkerConfig(dispatcher_address=address, dispatcher_timeout=LEASE, slots=2)):
        for name, taken in _read(address, files, numbers).items():
            yield from differences(name, taken, numbers)
        agreed = [asyncio.run(_agreed(address, steps)) for steps in range(2)]
        dispatcher.end()
        if dispatcher.problem:
            return
        dispatcher.start()
        again = _far(Dataset.range(len(numbers)), address, job_name="behind a restart")
        yield from differences("behind a restart", _taken(again), numbers)
        agreed.append(asyncio.run(_agreed(address, 1)))
        if not agreed[0] or len(set(agreed)) > 1:
            yield f"trainers were told to stop at {agreed}"
        yield from _unbalanced(address)
    dispatcher.end()


def _read(address: str, files: Path, numbers: list[int]) -> dict[str, list[int]]:
    """Read a job that is saved and gone on with, one that trainers share, and one of its own."""
    lines = Dataset.list_files(str(files / "*")).interleave(Dataset.text_lines).map(int)
    saved = _far(lines, address, job_name="saved")
    with iter(saved) as elements:
        before = [int(next(elements)) for _ in range(len(numbers) // 3)]
        state = json.loads(json.dumps(elements.state()))
        straight = before + [int(one) for one in elements]
    with saved.iterator(state) as elements:
        restored = before + [int(one) for one in elements]
    shared = {
        f"trainer {name}": _taken(
            _far(lines, address, job_name="cached", cross_trainer_cache=CrossTrainerCache(name))
        )
        for name in "ab"
    }
    copy = _far(lines, address, mode="parallel_epochs")
    return {"saved": straight, "restored": restored, **shared, "a copy": _taken(copy)}


def _far(
    dataset: Dataset, address: str, mode: str = "distributed_epoch", **options: Any
) -> Dataset:
    return dataset.distribute(mode, f"grpc://{address}", timeout=LEASE, **options)


def _taken(dataset: Dataset) -> list[int]:
    return [int(one) for one in dataset]


async def _agreed(address: str, steps: int) -> int:
    """Return the step at which a group stops: it is written in a file of its own, and stays.

    A report that is not answered is repeated, as trainers do.
    """
    said = PreemptionReport("group", "trainer", steps, noticed=True)
    async with asyncio.timeout(LEASE), connect(address) as channel:
        while True:
            with suppress(Unavailable):
                return (await REPORT.call(channel, said, timeout=LEASE)).agreed
            await asyncio.sleep(BEAT)


def differences(name: str, taken: list[int], numbers: list[int]) -> Iterator[str]:
    """Yield what of *numbers* was not *taken*, and what was taken too often."""
    lost, more = Counter(numbers) - Counter(taken), Counter(taken) - Counter(numbers)
    if lost:
        yield f"{name}: {sorted(lost.elements())} are lost"
    if more:
        yield f"{name}: {sorted(more.elements())} came again"


def _unbalanced(address: str) -> Iterator[str]:
    stats = json.loads(fetch(f"grpc://{address}"))
    for one in stats["iterations"]:
        if one["faults"]:
            yield f"the account of {one['job']} does not balance: {one['faults']}"


def left_in(work_dir: Path) -> list[str]:
    """Return what a dispatcher that ended in order left in its folder, and should not have."""
    found = {file.name for file in work_dir.iterdir()}
    problems = [f"{sorted(found)} are in the folder"] if found != KEPT else []
    for name in ("datasets", "listings"):
        unfinished = [file.name for file in (work_dir / name).iterdir() if file.name[0] == "."]
        problems += [f"{name} holds {unfinished}"] if unfinished else []
    with Store(work_dir / "journal.db", power=False) as store:
        if not store.load().state.length:
            problems.append("the journal is empty")
    return problems

"""Do a dispatcher's decisions and its journal stay as small and quick over 100,000 passes?

The real core and the real journal, without sockets: a pass is opened, its task is made and acked,
its reader leaves. Every other job has a name of its own. Each tenth is a process of its own, as
after a restart. At its end: its memory, the journal's files, the time of a pass, and how long it
took to read the journal. ``--runs`` is the number of passes, in thousands. `bench_many_passes.py`
asks the same of whole processes, with fewer passes.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from measure import Figure, arguments, show

from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import (
    PROTOCOL,
    Codec,
    DatasetId,
    IterationId,
    Mode,
    Versions,
    WorkerId,
)
from penstock_dispatcher.core.events import (
    AppendFact,
    Event,
    OpenIteration,
    RegisterDataset,
    ReplyToCall,
    StartHistory,
    Tick,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal.journal import DurableJournal, open_journal

STEPS = 10
PASS = 0.05
"""Seconds of the core's clock that a pass takes: passes that are over are forgotten meanwhile."""

VERSIONS, WORKER, DATASET = Versions(PROTOCOL, "3.11", "0"), WorkerId("w:1"), DatasetId("d")
SETTINGS = CoreSettings(idle=20.0, sweep_interval=5.0)
ELEMENTS = 10


class Dispatcher:
    """A core whose facts are journaled, with a worker and one reader after another."""

    def __init__(self, journal: DurableJournal, first: int) -> None:
        self.journal, self.now, self.calls, self.life = journal, 100.0, first, first + 1
        self.core = DispatcherCore(journal.state, SETTINGS, self.now, 1_800_000_000.0)
        journal.attach(self)

    def full(self, error: Exception) -> None:
        """See `penstock_dispatcher.journal.journal.Listener`."""
        raise error

    def relieved(self) -> None:
        """See `penstock_dispatcher.journal.journal.Listener`."""

    def tell(self, event: Event) -> object:
        """Handle *event*; return what a caller is answered."""
        answer = None
        for effect in (*self.core.handle(event, self.now), *self.core.take_views(self.now)):
            if isinstance(effect, AppendFact):
                self.journal.append(effect.fact)
            elif isinstance(effect, ReplyToCall):
                answer = effect.answer
        return answer

    def begin(self) -> None:
        """Have a dataset, unless there is one, and a worker."""
        if not self.core.state.datasets:
            self.tell(StartHistory(1))
            spec = SplitProviderSpec((".0",), ELEMENTS)
            self.tell(RegisterDataset(1, VERSIONS, DATASET, (spec,), ""))
        self.tell(WorkerHeartbeat(WORKER, self.life, -1, versions=VERSIONS))

    def read(self, name: str | None) -> None:
        """Read one pass of job *name* to its end."""
        self.calls += 1
        request = OpenIterationRequest(
            VERSIONS, JobParameters(DATASET, Mode.DYNAMIC, Codec.NONE), name, 1
        )
        opened = self.tell(OpenIteration(self.calls, request, self.calls))
        iteration = IterationId(opened.iteration)  # type: ignore[attr-defined]
        session = f"s{self.calls}"
        self.tell(ReaderHeartbeat(iteration, session, None, 1))
        state = self.core.state
        reader = state.iterations[iteration].sessions[session]
        for task in list(state.iterations[iteration].tasks):
            acked = AckedSet(ELEMENTS)
            progress = AttemptProgress(1, ELEMENTS, acked, done=True, ended=True)
            self.tell(WorkerHeartbeat(WORKER, self.life, state.revision, {task: progress}))
        if not state.iterations[iteration].finished:
            raise SystemExit("a pass did not end")
        end = ReaderHeartbeat(iteration, session, reader, 2, consumed=ELEMENTS)
        self.tell(end)
        self.tell(replace(end, seq=3, leaving=True))
        self.now += PASS
        self.tell(Tick())


def _memory() -> float:
    """Return the MiB of memory that this process uses."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _files(folder: Path) -> float:
    """Return the KiB of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1024


async def _passes(folder: Path, first: int, count: int) -> tuple[float, float]:
    """Read *count* passes; return the ms that each took, and those until the journal was open."""
    began = time.perf_counter()
    journal = open_journal(folder, power=False)
    opened = time.perf_counter() - began
    dispatcher = Dispatcher(journal, first)
    dispatcher.begin()
    began = time.perf_counter()
    for number in range(first, first + count):
        dispatcher.read(None if number % 2 else f"job {number}")
        await asyncio.sleep(0)
    seconds = time.perf_counter() - began
    await journal.aclose()
    return 1000 * seconds / count, 1000 * opened


def _step(folder: Path, first: int, count: int) -> tuple[float, float, float]:
    """Do as `_passes`, and return the memory at the end, too."""
    took, opened = asyncio.run(_passes(folder, first, count))
    gc.collect()
    return took, opened, _memory()


def main() -> None:
    """Measure after each tenth of the passes."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=100)
    count = options.runs * 1000 // STEPS
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step in range(STEPS):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:  # as after a restart
                took, opened, memory = process.submit(_step, folder, step * count, count).result()
            sizes = {
                "memory": (memory, "MiB"),
                "files": (_files(folder), "KiB"),
                "a pass": (took, "ms"),
                "journal read": (opened, "ms"),
            }
            for what, (value, unit) in sizes.items():
                name_of = f"{(step + 1) * count:,} passes: {what}"
                figures.append(Figure(name_of, value, value, value, unit))
    figures.sort(key=lambda figure: figure.name.partition(": ")[2])
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

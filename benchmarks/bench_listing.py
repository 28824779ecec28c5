"""How large is a job's state over many files, and what do they cost the dispatcher's loop and disk?

Ten tasks, two passes. Names are of 70 bytes, and come in the order of a seed. What a thread does
(finding the files, their outline, their order, keeping them) is measured apart: the loop answers
others meanwhile. Loop time is that of opening the pass and its first draws, and of the first draw
of the second pass; "journal" is what is written when a pass is opened, and in each snapshot.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from measure import Figure, arguments, seconds, show

from penstock.files import order
from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.control import ReaderHeartbeat, SaveBarrier, WorkerHeartbeat
from penstock.protocol.definition import UNLISTED, SplitProviderSpec
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import PROTOCOL, Codec, DatasetId, Mode, Versions, WorkerId
from penstock_dispatcher.core.events import (
    AppendFact,
    Call,
    Effect,
    Event,
    FilesOrdered,
    ListSourceFiles,
    OpenIteration,
    OrderSourceFiles,
    RegisterDataset,
    StartHistory,
)
from penstock_dispatcher.core.listings import outline, pieces
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal.snapshot import encode_fact, encode_live

COUNTS = (10**3, 10**4, 10**5, 10**6)
TASKS = 10
VERSIONS = Versions(PROTOCOL, "3.11", "0")
PATTERN = FilePattern(("/mnt/bucket/dataset/train/*",), shuffle=True, seed=None)


FIGURES = (
    ("state", "bytes"),
    ("loop, open and first draws", "ms"),
    ("loop, a save", "ms"),
    ("loop, first draws of pass 2", "ms"),
    ("thread", "ms"),
    ("journal, a pass opened", "bytes"),
    ("journal, a snapshot", "bytes"),
    ("names, once", "bytes"),
)


class Loop:
    """A mind, and how long it was busy; what it decides is encoded as for the journal."""

    def __init__(self) -> None:
        self.core = DispatcherCore(DispatcherState(), CoreSettings(), 0.0)
        self.busy = self.written = 0.0

    def tell(self, signal: Event) -> list[Effect]:
        """Have *signal* handled."""
        out: list[Effect] = []
        self.busy += seconds(lambda: self._handle(signal, out))
        return out

    def _handle(self, signal: Event, out: list[Effect]) -> None:
        out += self.core.handle(signal, 0.0)
        out += self.core.take_views(0.0)
        for effect in out:
            if isinstance(effect, AppendFact):
                self.written += len(encode_fact(effect.fact))


def main() -> None:
    """Open, draw and save, for each number of files."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=3)
    figures = []
    for count in COUNTS:
        names = tuple(
            f"/mnt/bucket/dataset/train/part-{i // 1000:05}/{i:032}.tar" for i in range(count)
        )
        runs = [_run(names) for _ in range(options.runs)]
        for at, (name, unit) in enumerate(FIGURES):
            values = [run[at] for run in runs]
            middle = statistics.median(values)
            figures.append(
                Figure(f"{name}, {count:,} files", middle, min(values), max(values), unit)
            )
    show(question, figures, options.json)


def _run(names: tuple[str, ...]) -> tuple[float, ...]:
    loop = Loop()
    stream = SplitProviderSpec((".0",), UNLISTED, PATTERN, 2, repeats=(("", 2),))
    loop.tell(StartHistory(1))
    loop.tell(RegisterDataset(Call(1), VERSIONS, DatasetId("d"), (stream,), ""))
    for i in range(TASKS):
        loop.tell(WorkerHeartbeat(WorkerId(f"w{i}"), 1, -1, versions=VERSIONS))
    request = OpenIterationRequest(
        VERSIONS, JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE), "j", 1
    )
    signal = OpenIteration(Call(2), request, 5)
    loop.busy = loop.written = 0.0
    (wanted,) = (e for e in loop.tell(signal) if isinstance(e, ListSourceFiles))
    (seed,) = wanted.seeds[0]
    known: dict[str, Any] = {"names": {0: names}}
    thread = seconds(lambda: known.update(orders={0: {seed: order(names, seed)}}))
    thread += seconds(lambda: known.update(listings={0: outline(names)}))
    thread += seconds(lambda: known.update(kept=b"".join(pieces(names))))
    kept = known.pop("kept")
    loop.tell(replace(signal, **known))
    written = loop.written
    ((name, iteration),) = loop.core.state.iterations.items()
    (ahead,) = _ahead(loop.tell(ReaderHeartbeat(name, "r", None, 1))) or [None]
    opening = loop.busy
    if ahead is not None:
        made = order(names, ahead.seed)
        loop.tell(FilesOrdered(ahead.iteration, ahead.provider, ahead.seed, made))
    loop.busy = 0.0
    loop.tell(ReaderHeartbeat(name, "r", None, 2, barrier=SaveBarrier(0, "", 9.0)))
    saving, state = loop.busy, len(iteration.save_results[0].state)
    (source,) = iteration.providers
    source.pass_number, source.offset = 1, 0
    later = seconds(lambda: source.draw(1, 4))
    times = (1000 * opening, 1000 * saving, 1000 * later, 1000 * thread)
    return (state, *times, written, len(encode_live(loop.core.state)), len(kept))


def _ahead(effects: list[Effect]) -> list[OrderSourceFiles]:
    return [effect for effect in effects if isinstance(effect, OrderSourceFiles)]


if __name__ == "__main__":
    main()

"""What does it cost that every loop, operator, link and frame is measured all the time?

The same pipelines as they are and with all of that left out: in this process, in runners, and in
their readers. A rate is that per second of processor time, of this process and the cluster's
together: where others use the machine, a clock on the wall does not tell one per cent. Runs are
short, and come in pairs that take turns in going first: a machine that drifts hits both of a pair.
What it costs is the median over the pairs; its spread is where that median lies with 95 %.
How fast memory moves depends on others most: of large arrays the calls are also timed by themselves
and added up.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from measure import Figure, arguments, show
from processes import cpu_of

from penstock import Dataset
from penstock.element import Element
from penstock.engine.iterator import Mark, OpIterator
from penstock.engine.loop_time import LoopClock
from penstock.engine.op_times import OpTimes
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Codec, TaskId, WorkerId
from penstock.reader.session.link_traffic import LinkMeter
from penstock.runtime.usage import family
from penstock_cluster import LocalCluster
from penstock_worker.runner.frame_writer import FrameWriter

UNMEASURED = Path(__file__).parent / "unmeasured"
sys.path.insert(0, str(UNMEASURED))

from unmeasured_calls import BACK, OUT, leave_out  # noqa: E402  its folder is on the path

LOCAL, SCALARS, FRAMES = 800_000, 1_500_000, 600
"""Elements of a run: it takes some tenths of a second."""

MIB = 1 << 20

CALLS = 10_000

REST, RESTS = 0.03, 3
"""Makers that compute for less than a tenth of so many seconds, so often, have nothing to do."""


@dataclass(frozen=True)
class Way:
    """How to take so many elements, and the processes beside this one that make them."""

    take: Callable[[int], object]
    makers: Sequence[int] = ()

    def rate(self, elements: int) -> float:
        """Return how many elements come for a second of processor time.

        From full buffers to full buffers: as many are made meanwhile as are taken.
        """
        self._settle()
        began = self.cpu()
        self.take(elements)
        self._settle()
        return elements / (self.cpu() - began)

    def _settle(self) -> None:
        """Wait until those that make them have nothing to do."""
        rests = 0
        while self.makers and rests < RESTS:
            before = self.cpu()
            time.sleep(REST)
            rests = rests + 1 if self.cpu() - before < REST / 10 else 0

    def cpu(self) -> float:
        """Return the seconds of processor time that this process and the makers have taken."""
        families = (one for maker in self.makers for one in family(maker))
        return time.process_time() + cpu_of(families)


@dataclass(frozen=True)
class Case:
    """So many elements, with and without what measures."""

    name: str
    elements: int
    way: Way
    left_out: Callable[[], Callable[[], None]] = leave_out
    """Leaves measuring out; what it returns puts it back."""

    def pair(self, *, measured_first: bool) -> tuple[float, float]:
        """Return the rates without and with it, of one run each."""
        rates = {}
        for with_it in (measured_first, not measured_first):
            gc.collect()
            rates[with_it] = self._rate(with_it=with_it)
        return rates[False], rates[True]

    def _rate(self, *, with_it: bool) -> float:
        # Both go through the same before: to look for all operators leaves traces in caches.
        put_back = self.left_out()
        try:
            if with_it:
                put_back()
            return self.way.rate(self.elements)
        finally:
            if not with_it:
                put_back()


def _passes(dataset: Dataset) -> Way:
    """Return what reads a whole pass of *dataset*, from `iter` on: its iterator is new."""
    return Way(lambda _: sum(1 for _ in dataset))


def _goes_on(dataset: Dataset, cluster: LocalCluster, held: ExitStack) -> Way:
    """Return what takes elements of one long pass, whose start is no part of the figure."""
    far = dataset.distribute("distributed_epoch", cluster.target, compression=None)
    elements = held.enter_context(iter(far))
    next(elements)
    makers = [worker.pid for worker in cluster.workers if worker.pid is not None]
    return Way(lambda count: sum(1 for _ in islice(elements, count)), makers)


def _left_out_at(makers: Sequence[int]) -> Callable[[], Callable[[], None]]:
    """Return what leaves measuring out here and in the runners of *makers*."""

    def tell(number: int) -> None:
        for maker in makers:
            for runner in family(maker)[1:]:
                os.kill(runner, number)

    def left_out() -> Callable[[], None]:
        put_back = leave_out()
        tell(OUT)

        def back() -> None:
            put_back()
            tell(BACK)

        return back

    return left_out


@contextmanager
def _cluster() -> Iterator[LocalCluster]:
    """Start one whose processes leave measuring out when they are told so."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(UNMEASURED), before)))
    try:
        cluster = LocalCluster(workers=1)
        cluster.start()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    with cluster:
        yield cluster


def _frame(_: int) -> np.ndarray:
    return np.empty(MIB, np.uint8)


def _in_process() -> Iterator[Case]:
    numbers = Dataset.range(LOCAL)
    for name, dataset in (
        ("range, in process", numbers),
        ("range → map → filter, in process", numbers.map(abs).filter(bool)),
        ("range → batch(32) → map, in process", numbers.batch(32).map(np.sum)),
    ):
        yield Case(name, LOCAL, _passes(dataset))
    same = _passes(numbers.map(abs).filter(bool))
    yield Case("nothing, for comparison: measured both times", LOCAL, same, _nothing_left_out)


def _nothing_left_out() -> Callable[[], None]:
    return lambda: None


def _on_workers(cluster: LocalCluster, held: ExitStack) -> Iterator[Case]:
    endless = Dataset.range(1 << 40)
    for name, dataset, elements in (
        ("scalars from a worker", endless, SCALARS),
        ("1 MiB arrays from a worker", endless.map(_frame), FRAMES),
    ):
        way = _goes_on(dataset, cluster, held)
        yield Case(name, elements, way, _left_out_at(way.makers))


def _figures(case: Case, runs: int) -> tuple[list[Figure], Figure]:
    """Return both rates, and by how many per cent measuring lowers them."""
    for first in (True, False):
        case.pair(measured_first=first)
    pairs = [case.pair(measured_first=bool(number % 2)) for number in range(runs)]
    rates = []
    for name, column in (("without", 0), ("with", 1)):
        of = [pair[column] for pair in pairs]
        whole = f"{case.name}: {name}"
        rates.append(Figure(whole, statistics.median(of), min(of), max(of), "elements/CPU s"))
    cost = sorted(100 * (1 - with_it / without) for without, with_it in pairs)
    low, high = around_median(cost)
    return rates, Figure(f"cost: {case.name}", statistics.median(cost), low, high, "%")


def around_median(ordered: Sequence[float]) -> tuple[float, float]:
    """Return between what the median of all there could be lies, with 95 %, by order statistics."""
    half = 0.98 * math.sqrt(len(ordered))
    low, high = math.floor(len(ordered) / 2 - half), math.ceil(len(ordered) / 2 + half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


class _Same(OpIterator):
    """An operator that gives the same block again and again; it costs next to nothing."""

    def __init__(self, below: OpIterator | None = None) -> None:
        self._below, self._same = below, [0]

    def block(self, n: int) -> list[Element]:
        return self._same if self._below is None else self._below.block(n)

    def mark(self) -> Mark:
        raise NotImplementedError


def _added_up(rate: float, runs: int) -> Iterator[Figure]:
    """Yield what the calls take that measure a frame of one element, and their share at *rate*."""
    numbers = RangeSet.of((0, 1))
    frame = FrameHeader(TaskId(1), 1, 1, 0, 1, 0, numbers, b"", Codec.NONE, MIB)
    message = [(frame, memoryview(bytes(1)))]
    writer, loop, link = SimpleNamespace(_began=0.0, _full=0.0), LoopClock(), LinkMeter()
    source, outer = _Same(), _Same()
    outer._below = source

    def measure() -> None:
        outer.block(1)
        writer._full = time.time()
        FrameWriter._times(writer, time.time())
        link.note(WorkerId("w:1"), message)
        loop.ask(0.0)
        loop.got(1e-4, 1)

    def without() -> None:
        outer.block(1)

    took = sorted(_less(measure, without, OpTimes(), (source, outer)) for _ in range(runs))
    each, (low, high) = statistics.median(took), around_median(took)
    yield Figure("added up: one frame", 1e6 * each, 1e6 * low, 1e6 * high, "CPU µs")
    costs = (100 * rate * value for value in (each, low, high))
    yield Figure("cost: 1 MiB arrays from a worker, added up", *costs, "%")


def _less(
    measure: Callable[[], None],
    without: Callable[[], None],
    times: OpTimes,
    operators: Sequence[OpIterator],
) -> float:
    """Return by how many seconds *measure*, with *operators* timed, takes longer than *without*."""
    bare = _cpu_of(without)
    for path, operator in zip(("0", ""), operators, strict=True):
        times.watch(operator, path, "same")
    whole = _cpu_of(measure)
    for operator in operators:
        vars(operator).pop("block")
    return whole - bare


def _cpu_of(call: Callable[[], None]) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=60)
    figures, costs = list[Figure](), list[Figure]()
    for case in _in_process():
        rates, cost = _figures(case, options.runs)
        figures += rates
        costs.append(cost)
    with _cluster() as cluster, ExitStack() as held:
        for case in _on_workers(cluster, held):
            rates, cost = _figures(case, options.runs)
            figures += rates
            costs.append(cost)
    first, share = _added_up(rates[0].median, options.runs)
    figures.append(first)
    costs.append(share)
    show(question, [*figures, *costs], options.json)


if __name__ == "__main__":
    main()

"""What does it cost that every loop, operator, link and frame is measured all the time?

The same pipelines as they are and with all of that left out: in this process, in runners, and in
their readers. A rate is that per second of processor time, of this process and the cluster's
together: where others use the machine, a clock on the wall does not tell one per cent. Runs are
short, and come in pairs that take turns in going first: a machine that drifts hits both of a pair.
What it costs is the median over the pairs; its spread is that of the middle half of them.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from measure import Figure, arguments, show

from penstock import Dataset
from penstock.runtime.usage import _family
from penstock_cluster import LocalCluster

UNMEASURED = Path(__file__).parent / "unmeasured"
sys.path.insert(0, str(UNMEASURED))

from unmeasured_calls import BACK, OUT, leave_out  # noqa: E402  its folder is on the path from here on

LOCAL, SCALARS, FRAMES = 800_000, 1_500_000, 600
"""Elements of a run: it takes some tenths of a second."""

MIB = 1 << 20


@dataclass(frozen=True)
class Way:
    """How to take so many elements, and the processes beside this one that make them."""

    take: Callable[[int], object]
    makers: Sequence[int] = ()

    def rate(self, elements: int) -> float:
        """Return how many elements come for a second of processor time."""
        began = self._cpu()
        self.take(elements)
        return elements / (self._cpu() - began)

    def _cpu(self) -> float:
        families = (one for maker in self.makers for one in _family(maker))
        return time.process_time() + sum(time.clock_gettime(_cpu_clock(one)) for one in families)


def _cpu_clock(pid: int) -> int:
    """Return what ``clock_getcpuclockid(3)`` gives: exact, where /proc counts in 10 ms."""
    return (~pid << 3) | 2


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
        if with_it:
            return self.way.rate(self.elements)
        put_back = self.left_out()
        try:
            return self.way.rate(self.elements)
        finally:
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
            for runner in _family(maker)[1:]:
                os.kill(runner, number)
        time.sleep(0.02)  # they are about it

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
    low, median, high = statistics.quantiles(cost, n=4)
    return rates, Figure(f"cost: {case.name}", median, low, high, "%")


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
    show(question, [*figures, *costs], options.json)


if __name__ == "__main__":
    main()

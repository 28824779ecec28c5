"""What do slots give: one worker of two slots, beside two workers of one and one worker of one?

A function keeps a core busy for 1 ms an element; each pass reads all elements, warm. What two plain
processes gain by one another, with nothing to send, is what the machine has to give.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from measure import arguments, in_turn, seconds, show

from penstock import AUTOTUNE, Dataset
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

ELEMENTS = 1500
WORK = 0.001
SETUPS = {
    "one worker of one slot": (1, 1),
    "two workers of one slot": (2, 1),
    "one worker of two slots": (1, 2),
}


def _busy(i: int) -> int:
    until = time.thread_time() + WORK
    while time.thread_time() < until:
        pass
    return i


def _reader(
    cluster: LocalCluster, mode: str = "distributed_epoch", calls: int | None = None
) -> Callable[[], float]:
    dataset = Dataset.range(ELEMENTS).map(_busy, num_parallel_calls=calls)
    dataset = dataset.distribute(mode, cluster.target)

    def read() -> None:
        assert sum(1 for _ in dataset) == ELEMENTS

    return lambda: ELEMENTS / seconds(read)


def _bare(pool: ProcessPoolExecutor) -> Callable[[], float]:
    def run() -> None:
        assert len(list(pool.map(_busy, range(ELEMENTS), chunksize=50))) == ELEMENTS

    return lambda: ELEMENTS / seconds(run)


def main() -> None:
    """Measure the three set-ups in turn; then the worker of two slots beside the two workers."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=7)
    with ExitStack() as stack:
        clusters = [stack.enter_context(_cluster(*setup)) for setup in SETUPS.values()]
        readers = list(zip(SETUPS, map(_reader, clusters), strict=True))
        pools = {f"plain processes: {n}": ProcessPoolExecutor(n) for n in (1, 2)}
        plain = [(name, _bare(stack.enter_context(pool))) for name, pool in pools.items()]
        limits = in_turn(plain, "elements/s", options.runs)
        figures = in_turn(readers, "elements/s", options.runs)
        again = in_turn(readers[1:], "elements/s", options.runs)
        off = [
            (f"the same worker, OFF, map(f{told})", _reader(clusters[2], "parallel_epochs", calls))
            for told, calls in (("", None), (", AUTOTUNE", AUTOTUNE))
        ]
        whole = in_turn(off, "elements/s", options.runs)
    figures = [*limits, *figures, replace(again[1], name="the same, beside two workers"), *whole]
    show(question, figures, options.json)


def _cluster(workers: int, slots: int) -> LocalCluster:
    return LocalCluster(workers=workers, worker=WorkerConfig(slots=slots))


if __name__ == "__main__":
    main()

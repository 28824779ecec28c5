"""What does one order cost: a job read in order, beside the same job as its elements come?

Two workers of one slot; each element keeps a core busy for the same time. Then one stretch in
sixteen costs four times as much: in order, it is waited for while workers make what comes behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from measure import arguments, in_turn, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

ELEMENTS = 20_000
WORK = 0.0002
SLOW_IN, SLOWER, STRETCH = 16, 4, 1000


def _equal(i: int) -> int:
    _work(WORK)
    return i


def _some_slow(i: int) -> int:
    """Take as long as the others, but in one stretch of sixteen."""
    slow = (i // STRETCH) % SLOW_IN == 0
    _work(WORK * SLOWER if slow else WORK)
    return i


def _work(duration: float) -> None:
    until = time.thread_time() + duration
    while time.thread_time() < until:
        pass


def _reader(
    cluster: LocalCluster, fn: Callable[[int], int], *, ordered: bool
) -> Callable[[], float]:
    dataset = Dataset.range(ELEMENTS).map(fn)
    far = dataset.distribute("distributed_epoch", cluster.target, ordered=ordered)

    def read() -> None:
        if ordered:
            assert all(i == int(x) for i, x in enumerate(far))
        else:
            assert sum(1 for _ in far) == ELEMENTS

    return lambda: ELEMENTS / seconds(read)


def main() -> None:
    """Measure with and without an order in turn, at equal costs and with slow splits."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=5)
    with LocalCluster(workers=2, worker=WorkerConfig(slots=1)) as cluster:
        names = {"as they come": False, "in order": True}
        figures = []
        for costs, fn in (("equal costs", _equal), ("a slow stretch", _some_slow)):
            readers = [
                (f"{costs}: {name}", _reader(cluster, fn, ordered=ordered))
                for name, ordered in names.items()
            ]
            figures += in_turn(readers, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

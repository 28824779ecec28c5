"""What do rounds cost: elements of 100 KiB to four consumers, with rounds and without?"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

import numpy as np
from measure import arguments, in_turn, show

from penstock import Dataset
from penstock_cluster import LocalCluster

CONSUMERS, NBYTES, ELEMENTS = 4, 100 << 10, 8000

_names = (f"throughput {number}" for number in itertools.count())


def _rate(readers: Sequence[Dataset]) -> float:
    """Return GB/s of all readers together, from the first element that each of them has."""
    ready = threading.Barrier(len(readers) + 1)
    counts = [0] * len(readers)

    def read(index: int) -> None:
        with iter(readers[index]) as elements:
            next(elements)
            ready.wait()
            counts[index] = sum(element.nbytes for element in elements)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(len(readers))]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began) / 1e9


def main() -> None:
    """Measure both in turn, through two workers, without compression."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    array = np.zeros(NBYTES, np.uint8)
    dataset = Dataset.range(ELEMENTS).map(lambda _: array)

    def uncoordinated(target: str) -> float:
        name = next(_names)
        shared = dataset.distribute("distributed_epoch", target, name, compression=None)
        return _rate(
            [shared]
            + [
                dataset.distribute("distributed_epoch", target, name, compression=None)
                for _ in range(CONSUMERS - 1)
            ]
        )

    def in_rounds(target: str) -> float:
        name = next(_names)
        return _rate(
            [
                dataset.distribute(
                    "distributed_epoch",
                    target,
                    name,
                    index,
                    CONSUMERS,
                    compression=None,
                )
                for index in range(CONSUMERS)
            ]
        )

    with LocalCluster(workers=2) as cluster:
        figures = in_turn(
            [
                ("first come first served", lambda: uncoordinated(cluster.target)),
                ("in rounds", lambda: in_rounds(cluster.target)),
            ],
            "GB/s",
            options.runs,
        )
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

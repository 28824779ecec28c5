"""Does memory stay as it is while 10,000 batches of 4.8 MB are read, by gRPC and by shared memory?

Resident memory of the process that reads, and of all processes of two workers, behind every 500
batches: a figure is the largest growth since the first 500 of them. A worker's memory is that of
its processes together; what they share counts for each.

Then one element of 1 GB: how much more memory than before the process that reads has after it
dropped the element, while it waits for the next one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np
from measure import Figure, arguments, show
from processes import family

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

SHAPE = (8, 224, 224, 3)
LOOK = 500
BATCHES = 10_000
LATER = 14.0
"""Seconds until the element after a large one comes."""
IMAGES = np.zeros(SHAPE, np.float32)


def _images(_: int) -> np.ndarray:
    return IMAGES


def _mib(pids: Iterable[int]) -> float:
    """Return the MiB of memory that processes use."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        total += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
    return total / 1024


def _courses(target: str, workers: list[int], transport: str, batches: int) -> list[list[float]]:
    """Return the memory of the reader, and that of workers, behind every `LOOK` batches."""
    dataset = Dataset.range(10**9).map(_images).take(batches)
    read = dataset.distribute(
        "distributed_epoch", target, compression=None, data_transfer_protocol=transport
    )
    courses: list[list[float]] = [[], []]
    for seen, batch in enumerate(read, 1):
        assert batch.nbytes == IMAGES.nbytes
        if seen % LOOK == 0:
            courses[0].append(_mib([os.getpid()]))
            courses[1].append(_mib(family(workers)))
        if seen == batches:  # each worker takes so many
            break
    return courses


def _large(i: int) -> np.ndarray:
    if i > 1:
        time.sleep(LATER)
    return np.ones(10**9 if i == 1 else 1000, np.uint8)


def _kept(target: str, transport: str) -> float:
    """Return the MiB that stay after an element of 1 GB, which the loop has dropped."""
    read = (
        Dataset.range(3)
        .map(_large)
        .distribute("parallel_epochs", target, compression=None, data_transfer_protocol=transport)
    )
    with iter(read) as elements:
        next(elements)
        before = _mib([os.getpid()])
        assert next(elements).nbytes == 10**9
        time.sleep(LATER / 2)  # it is trimmed once more, 5 s after it came
        return _mib([os.getpid()]) - before


def main() -> None:
    """Read by each transport."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    batches = BATCHES if options.runs >= 5 else BATCHES // 5
    figures = []
    for transport in ("grpc", "shm"):
        with LocalCluster(2, worker=WorkerConfig(slots=1)) as cluster:
            workers = [worker.pid for worker in cluster.workers if worker.pid is not None]
            courses = _courses(cluster.target, workers, transport, batches)
            kept = [_kept(cluster.target, transport) for _ in range(options.runs)]
        for who, course in zip(("reader", "workers"), courses, strict=True):
            grown = max(course) - course[0]
            name = f"{transport}, {batches:,} batches, {who}"
            figures += [
                Figure(f"{name}: memory", course[-1], min(course), max(course), "MiB"),
                Figure(f"{name}: growth", grown, 0.0, grown, "MiB"),
            ]
        name = f"{transport}, one element of 1 GB that was dropped, reader: kept"
        figures.append(Figure(name, median(kept), min(kept), max(kept), "MiB"))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()

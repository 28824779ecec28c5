"""What Penstock does for each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import work
from work import counted, endlessly, whole

from penstock import Dataset
from penstock.runtime.versions import versions
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

MIB = np.zeros(work.MIB, np.uint8)
IMAGES = np.zeros(work.IMAGES, np.float32)


def version() -> str:
    """Return which Penstock this is."""
    return f"Penstock {versions().penstock}"


def _mib(_: int) -> np.ndarray:
    return MIB


def _images(_: int) -> np.ndarray:
    return IMAGES


def _square(x: int) -> int:
    return x * x


def _plain() -> Iterator[int]:
    return (x * x for x in range(work.ROWS))


def _plain_scalars() -> Iterator[int]:
    return (_square(x) for x in list(np.arange(work.ROWS)))


def _slices() -> Dataset:
    return Dataset.from_tensor_slices(np.arange(work.ROWS))


def _far(dataset: Dataset, target: str, transport: str | None = None) -> Dataset:
    return dataset.distribute(
        "distributed_epoch", target, compression=None, data_transfer_protocol=transport
    )


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have clusters of two workers and of one, of a slot each; give the rows."""
    one_slot = WorkerConfig(slots=1)
    with LocalCluster(2, worker=one_slot) as two, LocalCluster(1, worker=one_slot) as one:
        yield _rows(two.target, one.target)


def _rows(two: str, one: str) -> Mapping[str, Any]:
    rows, batch = Dataset.range(work.ROWS), work.BATCH
    texts = Dataset.range(10**9).map(work.tokens).batch(work.TEXT_BATCH)
    files = Dataset.range(10**9).map(work.decode).batch(work.PICTURE_BATCH)
    by_processes = (
        Dataset.range(10**9)
        .map(work.tokens, num_parallel_calls=2, executor="process")
        .batch(work.TEXT_BATCH)
    )
    files_by_processes = (
        Dataset.range(10**9)
        .map(work.decode, num_parallel_calls=2, executor="process")
        .batch(work.PICTURE_BATCH)
    )
    forever = Dataset.range(10**9)
    ten = _far(Dataset.range(10), two)
    return {
        "slices": partial(endlessly, _slices().batch(batch), batch),
        "shuffled slices": partial(endlessly, _slices().shuffle(work.SHUFFLED).batch(batch), batch),
        "map": partial(endlessly, rows.map(_square), 1, 1000),
        "map: plain generator": partial(_generators, _plain),
        "map: of NumPy scalars": partial(_generators, _plain_scalars),
        "windows": partial(endlessly, rows.window(8).flat_map(_same), 1, 1000),
        "far scalars": partial(counted, _far(forever, two), 1, 1000),
        "far shuffled scalars": partial(
            counted, _far(forever.shuffle(work.SHUFFLED), two), 1, 1000
        ),
        "near shuffled scalars": partial(
            counted, _far(forever, two).shuffle(work.SHUFFLED), 1, 1000
        ),
        "first element": work.Timed(partial(work.first_of, _far(forever, two))),
        "cold": work.Timed(_cold),
        "reader CPU, 1 MiB": work.ReaderCpu(
            partial(counted, _far(forever.map(_mib), two)), work.MIB
        ),
        "reader CPU, 1 MiB: gRPC": work.ReaderCpu(
            partial(counted, _far(forever.map(_mib), two, "grpc")), work.MIB
        ),
        "reader CPU, 1 MiB: TCP": work.ReaderCpu(
            partial(counted, _far(forever.map(_mib), two, "tcp")), work.MIB
        ),
        "reader CPU, 4.8 MB": work.ReaderCpu(
            partial(counted, _far(forever.map(_images), two)), IMAGES.nbytes
        ),
        "reader CPU, 4.8 MB: gRPC": work.ReaderCpu(
            partial(counted, _far(forever.map(_images), two, "grpc")), IMAGES.nbytes
        ),
        "reader CPU, 4.8 MB: TCP": work.ReaderCpu(
            partial(counted, _far(forever.map(_images), two, "tcp")), IMAGES.nbytes
        ),
        "far ten elements": partial(whole, ten),
        "far 1 MiB": partial(counted, _far(forever.map(_mib), two)),
        "far 1 MiB: gRPC": partial(counted, _far(forever.map(_mib), two, "grpc")),
        "far 1 MiB: TCP": partial(counted, _far(forever.map(_mib), two, "tcp")),
        "far 4.8 MB": partial(counted, _far(forever.map(_images), two)),
        "far 4.8 MB: gRPC": partial(counted, _far(forever.map(_images), two, "grpc")),
        "far 4.8 MB: TCP": partial(counted, _far(forever.map(_images), two, "tcp")),
        "pictures": partial(counted, _far(files, two), work.PICTURE_BATCH),
        "pictures: map with processes": partial(counted, files_by_processes, work.PICTURE_BATCH),
        "texts": partial(counted, _far(texts, two), work.TEXT_BATCH),
        "texts: one worker": partial(counted, _far(texts, one), work.TEXT_BATCH),
        "texts: map with processes": partial(counted, by_processes, work.TEXT_BATCH),
    }


def _cold() -> float:
    """Return how long a cluster of two workers takes from nothing to its first element."""
    began = time.perf_counter()
    with LocalCluster(2, worker=WorkerConfig(slots=1)) as cluster:
        next(iter(_far(Dataset.range(10**9), cluster.target)))
        return time.perf_counter() - began


def _same(window: Dataset) -> Dataset:
    return window


def _generators(make: Callable[[], Iterator[int]]) -> Iterator[int]:
    while True:
        yield from counted(make(), 1, 1000)

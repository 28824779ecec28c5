"""What Penstock does for each question of `bench_files`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import file_work as files
import numpy as np
import work
from work import counted, endlessly

from penstock import Dataset
from penstock.runtime.versions import versions
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig


def version() -> str:
    """Return which Penstock this is."""
    return f"Penstock {versions().penstock}"


def _example(sample: dict[str, Any]) -> dict[str, Any]:
    return {"image": files.resized(sample["jpg"]), "class": int(sample["cls"])}


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have a cluster of two workers, of a slot each; give the rows."""
    with LocalCluster(2, worker=WorkerConfig(slots=1)) as two:
        yield _rows(two.target)


def _rows(target: str) -> Mapping[str, Any]:
    def far(dataset: Dataset) -> Dataset:
        return dataset.distribute("distributed_epoch", target, compression=None)

    size, one = files.ROW_BATCH, files.folder() / "one.jsonl"
    table = Dataset.parquet(files.names("*.parquet")).batch(size)
    pictures = Dataset.webdataset(files.names("*.tar"), select="jpg;cls").map(_example)
    pictures = pictures.batch(files.PICTURE_BATCH)
    rows = {
        "table": partial(endlessly, table, size),
        "table: bare": _arrow(size, threads=False),
        "table: bare, threads": _arrow(size, threads=True),
        "far table": partial(endlessly, far(table), size),
        "pictures": partial(endlessly, far(pictures), files.PICTURE_BATCH),
        "one file": work.Share(partial(_busy, far(Dataset.json_lines(one).map(_when)))),
        "documents": partial(endlessly, Dataset.json_lines(files.names("*.zst")), 1, 1000),
    }
    if (folder := files.folder() / "mosaic").exists():
        samples = Dataset.mds(folder).batch(files.SAMPLE_BATCH)
        rows["samples"] = partial(endlessly, far(samples), files.SAMPLE_BATCH)
        stored = far(Dataset.mds("s3://files/mosaic").batch(files.SAMPLE_BATCH))
        rows["far samples"] = partial(endlessly, stored, files.SAMPLE_BATCH)
        rows["far first batch"] = work.Timed(partial(work.first_of, stored))
    return rows


def _when(_: dict[str, Any]) -> np.ndarray:
    return np.array([os.getpid(), time.monotonic_ns()])


def _busy(lines: Dataset) -> float:
    """Return for which share of a pass the first worker that had no more lines was busy."""
    spans: dict[int, list[int]] = {}
    for worker, when in lines:
        span = spans.setdefault(int(worker), [int(when), 0])
        span[1] = int(when)
    whole = max(last for _, last in spans.values()) - min(first for first, _ in spans.values())
    return min(last - first for first, last in spans.values()) / whole * (len(spans) > 1)


def _arrow(size: int, *, threads: bool) -> Callable[[], Iterator[int]]:
    """Read the table by pyarrow alone, into arrays of NumPy."""
    from pyarrow import dataset

    def batches() -> Iterator[dict[str, np.ndarray]]:
        found = dataset.dataset(files.names("*.parquet"))
        for batch in found.to_batches(batch_size=size, use_threads=threads):
            yield {name: batch.column(name).to_numpy() for name in batch.schema.names}

    def read() -> Iterator[int]:
        while True:
            yield from counted(batches(), size)

    return read

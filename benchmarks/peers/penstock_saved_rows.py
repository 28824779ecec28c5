"""What Penstock does for each question of `bench_saved`."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import saved_work as saved
from work import Timed

from penstock import Dataset
from penstock.runtime.versions import versions
from penstock.service import save
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig


def version() -> str:
    """Return which Penstock this is."""
    return f"Penstock {versions().penstock}"


_MADE = Dataset.range(saved.ARRAYS).map(saved.element)


def _save(path: Path) -> None:
    _MADE.save(path, compression=None)


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have a cluster of two workers, of a slot each; give the rows."""
    path = saved.folder() / "penstock"
    _save(path)
    loaded = Dataset.load(path)
    plain = Dataset.arrow(sorted(map(str, (path / "data").iterdir())))
    with LocalCluster(2, worker=WorkerConfig(slots=1)) as two:

        def far(dataset: Dataset) -> Dataset:
            return dataset.distribute("distributed_epoch", two.target, compression=None)

        yield {
            "save": saved.saving(_save),
            "made": Timed(_made),
            "load": saved.touched(loaded),
            "plain": saved.touched(plain),
            "far load": saved.touched(far(loaded)),
            "far plain": saved.touched(far(plain)),
            "consumed": Timed(lambda: _consumed(far(_DEAR))),
            "written": Timed(lambda: _written(two.target)),
            "first chunk": Timed(lambda: _followed(two.target)[0]),
            "end": Timed(lambda: _followed(two.target)[1]),
        }


def _made() -> float:
    began = time.perf_counter()
    deque(_MADE, maxlen=0)
    return time.perf_counter() - began


def _image(number: Any) -> np.ndarray[Any, Any]:
    """Return 147 KiB that take about a millisecond of a core."""
    pixels = saved.RANDOM[: 224 * 224 * 3].reshape(224, 224, 3)
    return np.sort(np.roll(pixels, int(number)), axis=1)


_DEAR = Dataset.range(2000).map(_image)


def _consumed(dataset: Dataset) -> float:
    began = time.perf_counter()
    deque(dataset, maxlen=0)
    return time.perf_counter() - began


def _written(target: str) -> float:
    path, began = saved.folder() / "written", time.perf_counter()
    save(_DEAR, path, target, compression=None).wait()
    took = time.perf_counter() - began
    shutil.rmtree(path)
    return took


def _when(_: Any) -> np.int64:
    time.sleep(0.002)
    return np.int64(time.monotonic_ns())


def _followed(target: str) -> tuple[float, float]:
    """Follow a save; return when the first element came after the call, and the end after the last.

    Each element is the moment at which it was made.
    """
    path, began = saved.folder() / "followed", time.monotonic()
    made = Dataset.range(600).map(_when)
    job = save(made, path, target, chunk_seconds=0.5)
    reading = iter(Dataset.load(path, wait=True))
    last, first = next(reading), time.monotonic()
    for element in reading:
        last = max(last, element)
    end = time.monotonic()
    job.wait()
    shutil.rmtree(path)
    return first - began, end - float(last) / 1e9

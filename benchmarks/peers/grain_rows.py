"""What Grain does for each question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version as installed
from typing import Any

import grain
import numpy as np
import work
from work import counted, endlessly

MIB = np.zeros(work.MIB, np.uint8)
IMAGES = np.zeros(work.IMAGES, np.float32)

AT_ONCE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
OF_A_PROCESS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
"""What was fastest here: the 16 threads of the default fight for the GIL, and make a tenth."""


def version() -> str:
    """Return which Grain this is."""
    return f"Grain {installed('grain')}"


def _mib(_: int) -> np.ndarray:
    return MIB


def _images(_: int) -> np.ndarray:
    return IMAGES


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    slices = grain.MapDataset.source(np.arange(work.ROWS)).batch(work.BATCH)
    shuffled = grain.MapDataset.source(np.arange(work.ROWS)).shuffle(seed=7).batch(work.BATCH)
    forever = grain.MapDataset.range(10**6)

    def by_two(dataset: Any, batch: int = 0) -> Any:
        dataset = dataset.batch(batch) if batch else dataset
        options = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=8)
        return dataset.to_iter_dataset(OF_A_PROCESS).mp_prefetch(options)

    yield {
        "slices": partial(endlessly, slices.to_iter_dataset(AT_ONCE), work.BATCH),
        "shuffled slices": partial(endlessly, shuffled.to_iter_dataset(AT_ONCE), work.BATCH),
        "far 1 MiB": partial(counted, by_two(forever.map(_mib))),
        "far 4.8 MB": partial(counted, by_two(forever.map(_images))),
        "pictures": partial(
            counted, by_two(forever.map(work.decode), work.PICTURE_BATCH), work.PICTURE_BATCH
        ),
        "texts": partial(
            counted, by_two(forever.map(work.tokens), work.TEXT_BATCH), work.TEXT_BATCH
        ),
    }

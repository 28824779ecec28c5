"""What Mosaic's streaming does for each question of `bench_files`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import file_work as files
import work
from torch.utils.data import DataLoader
from work import counted, endlessly

streaming = files.mosaic()


def version() -> str:
    """Return which library this is."""
    return f"mosaicml-streaming {streaming.__version__}"


def _loaded(**where: str) -> DataLoader:
    size = files.SAMPLE_BATCH
    samples = streaming.StreamingDataset(**where, batch_size=size)
    return DataLoader(samples, size, num_workers=2, prefetch_factor=8, persistent_workers=True)


def _fetched() -> Iterator[Any]:
    """Read a pass from the object store; nothing of it is on the disk yet."""
    streaming.base.util.clean_stale_shared_memory()
    with TemporaryDirectory() as local:
        yield from _loaded(remote="s3://files/mosaic", local=local)


def _passes() -> Iterator[int]:
    while True:
        yield from counted(_fetched(), files.SAMPLE_BATCH)


def _first_batch() -> float:
    began, batches = time.perf_counter(), _fetched()
    next(batches)
    took = time.perf_counter() - began
    batches.close()
    return took


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    streaming.base.util.clean_stale_shared_memory()
    loaded = _loaded(local=str(files.folder() / "mosaic"))
    yield {
        "samples": partial(endlessly, loaded, files.SAMPLE_BATCH),
        "far samples": _passes,
        "far first batch": work.Timed(_first_batch),
    }

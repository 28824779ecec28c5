"""What Mosaic's streaming does for each question of `bench_files`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import file_work as files
from torch.utils.data import DataLoader
from work import endlessly

streaming = files.mosaic()


def version() -> str:
    """Return which library this is."""
    return f"mosaicml-streaming {streaming.__version__}"


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    streaming.base.util.clean_stale_shared_memory()
    size = files.SAMPLE_BATCH
    samples = streaming.StreamingDataset(local=str(files.folder() / "mosaic"), batch_size=size)
    loaded = DataLoader(samples, size, num_workers=2, prefetch_factor=8, persistent_workers=True)
    yield {"samples": partial(endlessly, loaded, size)}

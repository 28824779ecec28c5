"""What Mosaic's streaming does for each question of `bench_saved`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import saved_work as saved
from mosaic_file_rows import streaming, version
from torch.utils.data import DataLoader
from work import MIB

__all__ = ["ready", "version"]

_COLUMNS = {"id": "int", "data": f"ndarray:uint8:{MIB}"}


def _save(path: Path) -> None:
    with streaming.MDSWriter(out=str(path), columns=_COLUMNS) as writer:
        for element in saved.elements():
            writer.write(element)


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    streaming.base.util.clean_stale_shared_memory()
    # Its workers wait for ever for the threads of a dataset that this process has read before.
    here, there = saved.folder() / "mosaic", saved.folder() / "mosaic for workers"
    for path in (here, there):
        _save(path)
    loaded, by_workers = (
        streaming.StreamingDataset(local=str(path), batch_size=1) for path in (here, there)
    )
    far = DataLoader(
        by_workers, batch_size=None, num_workers=2, prefetch_factor=8, persistent_workers=True
    )
    yield {
        "save": saved.saving(_save),
        "load": saved.touched(loaded),
        "far load": saved.touched(far),
    }

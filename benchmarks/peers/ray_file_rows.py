"""What Ray Data does for each question of `bench_files`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import file_work as files
import ray
import ray_rows
from pyarrow import fs
from work import counted

version = ray_rows.version


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have Ray with two processors; give the rows."""
    names = files.names("*.parquet")

    def table() -> Iterator[int]:
        while True:
            rows = ray.data.read_parquet(names, filesystem=fs.LocalFileSystem())
            yield from counted(rows.iter_batches(batch_size=files.ROW_BATCH), files.ROW_BATCH)

    with ray_rows.started():
        yield {"far table": table}

"""What Hugging Face's datasets does for each question of `bench_saved`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import numpy as np
import saved_work as saved
import torch
from torch.utils.data import DataLoader


def version() -> str:
    """Return which libraries these are."""
    return f"datasets {datasets.__version__}, PyTorch {torch.__version__}"


def _save(path: Path) -> None:
    with TemporaryDirectory(dir=saved.folder()) as cache:  # it keeps what it has made once
        # Features are found by the first elements: given ones make a list of each array.
        made = datasets.Dataset.from_generator(saved.elements, cache_dir=cache)
        made.save_to_disk(str(path))


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    datasets.disable_progress_bars()
    path = saved.folder() / "datasets"
    _save(path)
    # The type keeps bytes: by default, an array becomes one of int64.
    loaded = datasets.load_from_disk(str(path)).with_format(
        "numpy", columns=["data"], output_all_columns=True, dtype=np.uint8
    )
    far = DataLoader(
        loaded,
        batch_size=None,
        num_workers=2,
        prefetch_factor=8,
        persistent_workers=True,
    )
    yield {
        "save": saved.saving(_save),
        "load": saved.touched(loaded),
        "far load": saved.touched(far),
    }

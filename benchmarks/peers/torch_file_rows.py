"""What libraries for PyTorch do for each question of `bench_files`: HF datasets and WebDataset."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import datasets
import file_work as files
import torch
import webdataset
from torch.utils.data import DataLoader
from work import endlessly


def version() -> str:
    """Return which libraries these are."""
    return (
        f"datasets {datasets.__version__}, webdataset {webdataset.__version__}, "
        f"PyTorch {torch.__version__}"
    )


def _streamed(form: str, pattern: str) -> Any:
    found = files.names(pattern)
    return datasets.load_dataset(form, data_files=found, split="train", streaming=True)


def _tensor(jpeg: bytes) -> torch.Tensor:
    """Decode a picture; a loader's workers hand tensors over in shared memory."""
    return torch.from_numpy(files.resized(jpeg))


def _same(batch: Any) -> Any:
    return batch


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    warnings.simplefilter("ignore")
    datasets.disable_progress_bars()
    size = files.ROW_BATCH
    table = _streamed("parquet", "*.parquet").with_format("numpy").batch(size)
    pictures = (
        webdataset.WebDataset(files.names("*.tar"), shardshuffle=False)
        .to_tuple("jpg", "cls")
        .map_tuple(_tensor, int)
        .batched(files.PICTURE_BATCH)
    )
    yield {
        "table": partial(endlessly, table, size),
        "far table": partial(endlessly, _loaded(table), size),
        "pictures": partial(endlessly, _loaded(pictures), files.PICTURE_BATCH),
        "documents": partial(endlessly, _streamed("json", "*.zst"), 1, 1000),
    }


def _loaded(batches: Any) -> Any:
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=2,
        prefetch_factor=8,
        collate_fn=_same,
        persistent_workers=True,
    )

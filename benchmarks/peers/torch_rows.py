"""What PyTorch's DataLoader does for each question."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
import work
from torch.utils import data
from work import counted, endlessly

MIB = np.zeros(work.MIB, np.uint8)
IMAGES = np.zeros(work.IMAGES, np.float32)


def version() -> str:
    """Return which PyTorch this is."""
    return f"PyTorch {torch.__version__}"


class _Mapped(data.Dataset):
    def __init__(self, make: Any) -> None:
        self._make = make

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, number: int) -> Any:
        return self._make(number)


def _mib(_: int) -> np.ndarray:
    return MIB


def _images(_: int) -> np.ndarray:
    return IMAGES


def _number(number: int) -> int:
    return number


class _Gathered(data.Dataset):
    def __init__(self, rows: torch.Tensor) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, numbers: list[int]) -> torch.Tensor:
        return self._rows[numbers]


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Give the rows."""
    warnings.simplefilter("ignore")
    slices = _Gathered(torch.arange(work.ROWS))

    def loaded(make: Any, batch: int | None = None) -> Any:
        return data.DataLoader(_Mapped(make), batch, num_workers=2, prefetch_factor=8)

    def batches(order: Any) -> Any:
        # Whole batches are gathered at once: element by element it takes fifty times as long.
        chosen = data.BatchSampler(order, work.BATCH, drop_last=False)
        return data.DataLoader(_Gathered(torch.arange(work.ROWS)), sampler=chosen, batch_size=None)

    yield {
        "slices": partial(endlessly, batches(data.SequentialSampler(slices)), work.BATCH),
        "shuffled slices": partial(endlessly, batches(data.RandomSampler(slices)), work.BATCH),
        "reader CPU, 4.8 MB": work.ReaderCpu(partial(counted, loaded(_images)), IMAGES.nbytes),
        "reader CPU, 1 MiB": work.ReaderCpu(partial(counted, loaded(_mib)), MIB.nbytes),
        "first element": work.Timed(partial(work.first_of, loaded(_number))),
        "far 1 MiB": partial(counted, loaded(_mib)),
        "far 4.8 MB": partial(counted, loaded(_images)),
        "pictures": partial(counted, loaded(work.decode, work.PICTURE_BATCH), work.PICTURE_BATCH),
        "texts": partial(counted, loaded(work.tokens, work.TEXT_BATCH), work.TEXT_BATCH),
    }

"""What contestants of `bench_saved` write and read: arrays of 1 MiB of random bytes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from work import MIB, Timed

VARIABLE = "BENCH_SAVED"
"""Holds the folder of the files, for contestants."""

ARRAYS = 200
RANDOM = np.random.default_rng(1).integers(0, 255, MIB, np.uint8)


def folder() -> Path:
    """Return where the files are."""
    return Path(os.environ[VARIABLE])


def element(number: Any) -> dict[str, Any]:
    """Return one element."""
    return {"id": int(number), "data": np.roll(RANDOM, int(number))}


def elements() -> Iterator[dict[str, Any]]:
    """Yield all of them."""
    return map(element, range(ARRAYS))


def touched(read: Iterable[Any]) -> Callable[[], Iterator[int]]:
    """Read *read* again and again, and each page of the arrays, as training would."""

    def passes() -> Iterator[int]:
        while True:
            for one in read:
                one["data"][::4096].sum()
                yield 1

    return passes


def saving(save: Callable[[Path], object]) -> Timed:
    """Return how long *save* takes, each time into a new folder."""
    path = folder() / f"saving of {os.getpid()}"

    def once() -> float:
        began = time.perf_counter()
        save(path)
        took = time.perf_counter() - began
        shutil.rmtree(path)
        return took

    return Timed(once)

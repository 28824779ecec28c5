"""How long a store takes to write and to read elements: measured once in each process."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.saved.chunk_format import ChunkWriter, rows_of
from penstock.saved.chunks import ChunkContents
from penstock.saved.folder import SaveFolder, folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout

_TRIALS = ((4 << 10, 4096), (1 << 20, 4), (16 << 20, 1))
"""The sizes of the elements that are tried, and how many of each are in the file."""

_TRIAL = re.compile(r"trial-(\d+)-")
"""In the name of a trial's file, also while it is written: when it was begun, in seconds."""

_LONGEST = 3600
"""After this number of seconds, a trial's file is left over from a process that was killed."""

_READS = 3
"""How often each file is read. The fastest time counts: other work on the host only adds to it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The seconds for an element of some sizes, as pairs in the order of the sizes."""

    points: Sequence[tuple[float, float]]

    def seconds(self, nbytes: float) -> float:
        """Return the seconds for an element of *nbytes*: on the line through the nearest points.

        An element that is smaller than all of them takes as long as the smallest.
        """
        upper = next((i for i, (size, _) in enumerate(self.points) if size >= nbytes), -1)
        if not upper:
            return self.points[0][1]
        (size, took), (larger, longer) = self.points[upper - 1], self.points[upper]
        return took + max(0.0, (longer - took) / (larger - size)) * (nbytes - size)


@dataclass(frozen=True, slots=True)
class StoreSpeed:
    """The time that elements take to be written to a store, and read."""

    write: Curve
    read: Curve


@lru_cache(maxsize=64)
def store_speed(path: str) -> StoreSpeed:
    """Return how fast the store of the folder *path* is.

    It writes 36 MB, reads them three times, and deletes them and what killed processes left.

    Raises:
        DatasetError: when it cannot be written.
    """
    folder, wrote, read = folder_of("autocache", path), [], []
    _sweep(folder)
    for nbytes, count in _TRIALS:
        took = _trial(folder, nbytes, count)
        wrote.append((float(nbytes), took[0] / count))
        read.append((float(nbytes), took[1] / count))
    return StoreSpeed(Curve(tuple(wrote)), Curve(tuple(read)))


def _sweep(folder: SaveFolder) -> None:
    """Delete the files of trials that killed processes have left in *folder*."""
    for name in folder.entries():
        begun = _TRIAL.search(name)
        if begun and time.time() - int(begun[1]) > _LONGEST:
            folder.delete(name)


def _trial(folder: SaveFolder, nbytes: int, count: int) -> tuple[float, float]:
    """Return how many seconds *count* elements of *nbytes* take to be written, and read."""
    random = np.random.default_rng(0)
    elements = [random.integers(0, 256, nbytes, np.uint8) for _ in range(count)]
    name = f"trial-{time.time():.0f}-{secrets.token_hex(8)}"
    layout = SavedLayout.of(elements[0])
    began = time.perf_counter()
    writer = ChunkWriter(FORMATS["arrow"], layout, "zstd")
    writer.add(elements, 1 << 62)
    data, contents = writer.finish()
    with folder.writing(name):
        folder.write(name, data)
    written = time.perf_counter()
    try:
        return written - began, min(_read(folder, name, layout, contents) for _ in range(_READS))
    finally:
        folder.delete(name)


def _read(folder: SaveFolder, name: str, layout: SavedLayout, contents: ChunkContents) -> float:
    began = time.perf_counter()
    data = folder.read(name) or b""
    rows_of(FORMATS["arrow"], layout, contents, data, range(contents.count))
    return time.perf_counter() - began

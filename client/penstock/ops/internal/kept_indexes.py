"""Indexes of files in the user's cache folder, which is bounded in bytes.

Each index is a file of its own, written whole or not at all. If all files together take more than
`MOST_BYTES`, those that nothing has read for the longest time leave. A reader that has such a file
mapped keeps its bytes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Index: TypeAlias = NDArray[np.int64]

MOST_BYTES = 1 << 30
"""How many bytes the indexes in the folder may take."""

_TIDY_EACH = 16
"""A process looks through the folder after each `MOST_BYTES` / `_TIDY_EACH` bytes that it wrote."""

_ABANDONED = 3600.0
"""An index that is not complete and so many seconds older than the newest file is that of a process
that was killed."""

_NEW = ".part"
"""Ends the name of an index that is not complete."""


class KeptFile(NamedTuple):
    """A file of the folder: when it was read or written last, its bytes, and its name."""

    used: float
    nbytes: int
    name: str


def to_remove(found: Collection[KeptFile], most: int) -> list[str]:
    """Return the names of the files to remove, so that the others take at most *most* bytes."""
    gone, left = list[str](), list[KeptFile]()
    newest = max((file.used for file in found), default=0.0)
    for file in found:
        if not file.name.endswith(_NEW):
            left.append(file)
        elif newest - file.used > _ABANDONED:
            gone.append(file.name)
    excess = sum(file.nbytes for file in left) - most
    for file in sorted(left):
        if excess <= 0:
            break
        excess -= file.nbytes
        gone.append(file.name)
    return gone


class KeptIndexes:
    """The indexes in the user's cache folder. Never makes a read fail: a full disk keeps none."""

    def __init__(self) -> None:
        self._until_tidy = 0
        """How many more bytes this process may write before it looks through the folder."""

    def get(self, key: str) -> Index | None:
        """Return the index that is kept as *key*, if there is one and it can be read."""
        file = folder() / f"{key}.npy"
        try:
            found: Index = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        with suppress(OSError):  # of another user
            os.utime(file)
        return found

    def keep(self, key: str, index: Index) -> None:
        """Keep *index* as *key*, if the disk allows it."""
        with suppress(OSError):
            _write(folder() / f"{key}.npy", index)
            self._until_tidy -= index.nbytes
            if self._until_tidy <= 0:
                self._until_tidy = MOST_BYTES // _TIDY_EACH
                _tidy(folder())


def folder() -> Path:
    """Return the folder of the indexes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "penstock" / "indexes"


def _tidy(here: Path) -> None:
    found = []
    with os.scandir(here) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process removed it
                told = entry.stat(follow_symlinks=False)
                found.append(KeptFile(told.st_mtime, told.st_size, entry.name))
    for name in to_remove(found, MOST_BYTES):
        with suppress(OSError):
            (here / name).unlink()


def _write(path: Path, index: Index) -> None:
    """Write *index* whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=_NEW, delete=False) as out:
        try:
            np.save(out, index, allow_pickle=False)
            out.close()
            Path(out.name).replace(path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise

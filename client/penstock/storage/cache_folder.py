"""The folder of a cache on disk: its layout, its owner, and its settings."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError
from penstock.storage.cache_index import CacheIndex, CacheTotals, totals_in

if sys.platform != "win32":
    import fcntl

NEW = ".new"
"""Ends the name of a piece that is not complete."""

FILE_CACHE_BYTES = 64 << 30
"""How many bytes a cache may hold, if the user does not say."""


@dataclass(frozen=True, slots=True)
class FileCacheSettings:
    """The settings of the cache of remote files, each also as a ``PENSTOCK_*`` variable.

    Attributes:
        file_cache_dir: the folder; None is no cache.
        file_cache_bytes: the most bytes that the cache may hold.
    """

    file_cache_dir: str | None = None
    file_cache_bytes: int = FILE_CACHE_BYTES

    def __post_init__(self) -> None:
        if self.file_cache_bytes < 1:
            raise ConfigError(
                f"file_cache_bytes must be a positive number of bytes, not {self.file_cache_bytes}"
            )


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """The folder of *user* below *given*, which the setting ``file_cache_dir`` names."""

    given: str
    user: int

    @property
    def path(self) -> Path:
        """The folder itself, which only its user can read."""
        return Path(self.given).expanduser().absolute() / f"penstock-files-{self.user}"

    def piece(self, name: str) -> Path:
        """Return the file of the piece *name*."""
        return self.path / name[:2] / name

    def new(self, name: str) -> Path:
        """Return the file of the piece *name* while it is written."""
        return self.path / name[:2] / (name + NEW)

    @property
    def _index(self) -> Path:
        return self.path / "index.sqlite"

    def prepare(self) -> CacheFolder:
        """Make the folder, check that its user can write to it, and return this.

        Raises:
            ConfigError: naming the folder and the reason.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
                if self.user != os.geteuid():
                    os.chown(self.path, self.user, -1)
            self._check_owner()
            probe = self.path / f"probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as exc:
            raise ConfigError(
                f"file_cache_dir={self.given!r} cannot be used by user {self.user}: {exc}. Name a "
                "folder that this user can write to"
            ) from exc
        return self

    def _check_owner(self) -> None:
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.user:
            raise PermissionError(f"{self.path} is not a folder of this user")
        if found.st_mode & 0o077:
            self.path.chmod(0o700)
        for above in self.path.parents if self.user != os.geteuid() else ():
            if above.stat().st_uid != self.user and not above.stat().st_mode & stat.S_IXOTH:
                raise PermissionError(f"{above} is closed to this user")

    def open_index(self) -> CacheIndex:
        """Open the index. The first process in the folder removes files that are not in the index.

        Raises:
            OSError: when a file cannot be written.
            sqlite3.Error: when the index is damaged, and other processes use the folder.
        """
        lock = os.open(self.path / "in-use.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._tidy()
            # This process keeps it until it ends: no other process is the first meanwhile.
            fcntl.flock(lock, fcntl.LOCK_SH)
            return CacheIndex(self._index)
        except BaseException:
            os.close(lock)
            raise

    def _tidy(self) -> None:
        """Make index and files agree after a power failure, a kill, or damage."""
        try:
            index = CacheIndex(self._index)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            for file in self.path.glob(f"{self._index.name}*"):
                file.unlink()
            index = CacheIndex(self._index)
        with closing(index):
            held = index.held()
            for folder in self.path.glob("??"):
                for entry in os.scandir(folder):
                    if held.pop(entry.name, None) is None:
                        os.unlink(entry.path)  # noqa: PTH108  there may be a million
            index.drop(held)

    def totals(self) -> CacheTotals:
        """Return how much all processes keep in the folder; nothing if that cannot be read."""
        try:
            return totals_in(self._index)
        except sqlite3.Error:
            return CacheTotals()

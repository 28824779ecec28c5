"""Keeps pieces of remote files on the disk of this host, for all processes of one user.

Each piece is a file of its own: a checksum, then the bytes. A process that stores a piece writes it
under another name first, with a lock on it, so that other processes wait and download nothing. The
system frees the lock of a killed process. A reader opens the file before it reads, so the bytes
stay readable if another process removes the name meanwhile.

The cache never makes a read fail. If the disk is full or broken, reads go to the store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TypeVar

from penstock.runtime.settings import from_env
from penstock.storage.cache_folder import CacheFolder, FileCacheSettings
from penstock.storage.cache_index import CacheIndex
from penstock.storage.counts import count
from penstock.storage.part_key import PartKey

if sys.platform != "win32":
    import fcntl

log = logging.getLogger("penstock.storage")

T = TypeVar("T")

FREE_SHARE, MOST_FREE = 0.05, 16 << 30
"""The cache leaves `FREE_SHARE` of the file system free, but at most `MOST_FREE` bytes."""

WITHIN = 30.0
"""Seconds that a reader waits for another one's download of the same piece. Then it downloads, too,
because the other one may be stopped."""

LOOK = 0.002, 0.05
"""Seconds between looks whether a download of another process is over: at first, and at most."""

PAUSE = 60.0
"""Seconds for which a process leaves the index alone after the disk refused something."""

HEADER = 32
"""Bytes of the checksum before the bytes of a piece."""

MOST_CHECKED = 1 << 17
"""How many pieces a process remembers as checked."""


class DiskCache:
    """A `RangeCache` in a folder that is bounded in bytes. For any thread, and after a fork."""

    def __init__(self, folder: CacheFolder, nbytes: int, *, within: float = WITHIN) -> None:
        """Use *folder*, for at most *nbytes*. A reader waits *within* seconds for another one."""
        self._folder, self._nbytes, self._within = folder, nbytes, within
        self._opened: dict[int, _CacheOfProcess] = {}

    @classmethod
    def of_environment(cls) -> DiskCache | None:
        """Return the cache that the variables of this process name, if they name one.

        Raises:
            ConfigError: when they are malformed, or the folder cannot be used.
        """
        settings = from_env(FileCacheSettings, os.environ)
        if settings.file_cache_dir is None:
            return None
        folder = CacheFolder(settings.file_cache_dir, os.geteuid()).prepare()
        return cls(folder, settings.file_cache_bytes)

    def get(self, key: PartKey, fetch: Callable[[], bytes]) -> bytes:
        """See `RangeCache.get`. Files without a version are not kept."""
        if not key.is_lasting:
            return fetch()
        name, nbytes = _name(key), HEADER + key.stop - key.start
        if (data := self._read(name, nbytes)) is not None:
            count(cache_hits=1)
            return data
        count(cache_misses=1)
        return self._stored(name, nbytes, fetch) if self._admitted(name, nbytes) else fetch()

    @property
    def _here(self) -> _CacheOfProcess:
        # A fork must neither use nor close what its parent has open.
        return self._opened.setdefault(os.getpid(), _CacheOfProcess(self._folder))

    def _read(self, name: str, nbytes: int) -> bytes | None:
        """Return the bytes of a piece; None if it is not there or damaged."""
        try:
            with self._folder.piece(name).open("rb", buffering=0) as file:
                data = self._checked(name, file)
        except OSError as exc:
            if not isinstance(exc, FileNotFoundError):
                self._here.give_up(exc)
            return None
        if data is None:
            self._here.ask(lambda index: index.drop([name]), None)
        else:
            self._here.ask(lambda index: index.note_hit(name, nbytes), None)
        return data

    def _checked(self, name: str, file: FileIO) -> bytes | None:
        """Return the bytes in *file*. The first time, compare them with their checksum."""
        checked, info = self._here.checked, os.fstat(file.fileno())
        digest = os.pread(file.fileno(), HEADER, 0)
        data = os.pread(file.fileno(), info.st_size, HEADER)
        identity = info.st_ino, info.st_mtime_ns
        if checked.get(name) != identity:
            if digest != _digest(name, data):
                log.warning("%s is damaged; its bytes are read from the store again", file.name)
                Path(file.name).unlink(missing_ok=True)
                return None
            if len(checked) >= MOST_CHECKED:
                checked.clear()
            checked[name] = identity
        return data

    def _admitted(self, name: str, nbytes: int) -> bool:
        nothing: tuple[bool, list[str]] = False, []
        admitted, gone = self._here.ask(lambda i: i.admit(name, nbytes, self._bound), nothing)
        self._remove(gone)
        count(cache_evictions=len(gone))
        return admitted

    def _bound(self, held: int) -> int:
        """Return how many bytes the cache may hold now, when it holds *held*."""
        disk = os.statvfs(self._folder.path)
        floor = min(int(FREE_SHARE * disk.f_blocks * disk.f_frsize), MOST_FREE)
        return max(0, min(self._nbytes, held + disk.f_bavail * disk.f_frsize - floor))

    def _stored(self, name: str, nbytes: int, fetch: Callable[[], bytes]) -> bytes:
        """Return a piece that this process, or another one meanwhile, downloads and stores."""
        deadline, pause = time.monotonic() + self._within, LOOK[0]
        while (file := self._claimed(name)) is None:
            if time.monotonic() >= deadline or self._here.paused:
                return fetch()
            time.sleep(pause)
            pause = min(2 * pause, LOOK[1])
        with file:
            if (data := self._read(name, nbytes)) is not None:
                self._folder.new(name).unlink(missing_ok=True)
                return data
            try:
                data = fetch()
            except BaseException:
                self._remove([name])
                raise
            self._store(name, data, file)
        return data

    def _claimed(self, name: str) -> BinaryIO | None:
        """Return the file for a new piece, locked; None if another process or thread has it."""
        new = self._folder.new(name)
        try:
            new.parent.mkdir(mode=0o700, exist_ok=True)
            file = open(os.open(new, os.O_RDWR | os.O_CREAT, 0o600), "wb")  # noqa: PTH123, SIM115
        except OSError as exc:
            self._here.give_up(exc)
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one before may have finished or removed the file between the two lines above.
            if new.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except (BlockingIOError, FileNotFoundError):
            pass
        file.close()
        return None

    def _store(self, name: str, data: bytes, file: BinaryIO) -> None:
        try:
            file.truncate(0)
            file.write(_digest(name, data))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            self._folder.new(name).rename(self._folder.piece(name))
        except OSError as exc:
            self._remove([name])
            self._here.give_up(exc)
        # Another process may have given the piece up before its file was there.
        if not self._here.ask(lambda index: index.holds(name), False):
            self._remove([name])

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):
                self._folder.new(name).unlink(missing_ok=True)
                self._folder.piece(name).unlink(missing_ok=True)


@dataclass(slots=True)
class _CacheOfProcess:
    """The open files of one process in a folder, and the pieces that it checked. For any thread."""

    folder: CacheFolder
    checked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The pieces whose bytes were compared with their checksum; inode and time of each."""
    _index: CacheIndex | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _paused_until: float = 0.0
    _told: bool = False

    @property
    def paused(self) -> bool:
        """Whether this process leaves the index alone."""
        return time.monotonic() < self._paused_until

    def ask(self, question: Callable[[CacheIndex], T], otherwise: T) -> T:
        """Return what *question* returns for the index, or *otherwise* if that cannot be used."""
        if self.paused:
            return otherwise
        try:
            with self._lock:
                if self._index is None:
                    self._index = self.folder.open_index()
                return question(self._index)
        except (OSError, sqlite3.Error) as exc:
            self.give_up(exc)
            return otherwise

    def give_up(self, error: Exception) -> None:
        """Continue without the cache for a while; say so once."""
        self._paused_until = time.monotonic() + PAUSE
        if not self._told:
            self._told = True
            log.warning(
                "the file cache in %s cannot be used (%s): remote files are read without it, and "
                "it is tried again every %g s",
                self.folder.path,
                error,
                PAUSE,
            )


def _name(key: PartKey) -> str:
    text = "\0".join((key.url, key.version, f"{key.start}-{key.stop}"))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HEADER, key=name.encode()).digest()

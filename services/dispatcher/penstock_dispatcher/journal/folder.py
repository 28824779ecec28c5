"""The work directory: locked to one process, and still the one that was opened."""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from penstock.errors import ConfigError, JournalError

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""


class JournalFolder:
    """Checks that *files* of *folder* are the same files, not just the same names.

    A file that was removed while it is open can be written forever, and never found again.
    """

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self._folder = folder
        self._known = {file: _identity(file) for file in files}

    def check(self) -> None:
        """Check that they are there. A file that comes later is checked from then on.

        Raises:
            JournalError: when one is missing, or is another one.
        """
        for file, known in self._known.items():
            found = _identity(file)
            if known is None:
                self._known[file] = found
            elif found != known:
                raise JournalError(
                    f"{file} was {'removed' if found is None else 'replaced'} while the dispatcher "
                    f"was using {self._folder}: its later decisions would be lost, so it "
                    "stops. Restore the folder from a copy and start again, or start in an empty "
                    "one: readers and workers of now then end with an error that says so"
                )


def check_whole(folder: Path) -> None:
    """Refuse a folder whose journal is gone: its definitions alone say that there was one.

    Raises:
        JournalError: naming what is missing.
    """
    journal, datasets = folder / "journal.db", folder / "datasets"
    if journal.exists() and journal.stat().st_size:
        return
    kept = len([f for f in datasets.glob("[!.]*") if f.is_file()]) if datasets.is_dir() else 0
    if kept:
        raise JournalError(
            f"{journal} is {'empty' if journal.exists() else 'missing'}, and {datasets} holds "
            f"{kept} definition{'s' * (kept != 1)}: all decisions about them are lost. Restore "
            f"the folder from a copy; or delete {folder} to begin again: then jobs of before are "
            "read from the beginning again"
        )


def _identity(file: Path) -> Identity | None:
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


if sys.platform != "win32":
    import fcntl


class FolderLock:
    """Locks *folder* for this process until it is released, or the process ends.

    Raises:
        ConfigError: naming the folder, and the process that holds it.
        OSError: when the folder knows no locks.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lock"
        self._fd = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.read(self._fd, 200).decode(errors="replace").strip()
            self.release()
            raise ConfigError(
                f"work_dir: {folder} is in use by another dispatcher ({holder or 'starting'}); "
                "stop that one, or give this one a folder of its own"
            ) from exc
        except OSError:
            self.release()
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        _HELD.add(self)

    def release(self) -> None:
        """Let the folder go. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = release


_HELD: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget() -> None:
    # A child that outlives this process must not keep its folder locked.
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):  # on Windows this is imported, by commands
    os.register_at_fork(after_in_child=_forget)

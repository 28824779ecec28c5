"""One dispatcher a folder: a lock that ends with its process, however that ends."""

from __future__ import annotations

import os
import socket
import sys
import weakref
from pathlib import Path

from penstock.errors import ConfigError

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

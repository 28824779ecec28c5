"""The folder of a dispatcher that a program or a command starts: given, or a temporary one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from penstock.errors import ConfigError

if sys.platform != "win32":
    import fcntl

PREFIX, OWNER, LOCK = "penstock-", "owner", "lock"
"""How names of temporary folders begin; the file in one that its owner has locked, and the one that
its dispatcher has."""


def given_folder(path: str | Path) -> Path:
    """Return *path* as a folder that is there.

    Raises:
        ConfigError: when there is none, and it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"work_dir {str(path)!r} cannot be made ({exc}): give a folder that can be written to"
        ) from exc
    return folder


def temporary_folder() -> Path:
    """Return a new folder, which `remove_temporary` removes.

    If this process is killed first, the next one that wants a folder removes it.

    Raises:
        ConfigError: when no folder for temporary files can be written to.
    """
    try:
        _remove_abandoned(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        _OWNED[folder] = _locked(folder)
    except OSError as exc:
        raise ConfigError(
            f"there is no folder for the dispatcher's files ({exc}): give work_dir, a folder that "
            "can be written to, or name one in the variable TMPDIR"
        ) from exc
    return folder


def remove_temporary(folder: Path) -> None:
    """Remove *folder*, which `temporary_folder` returned. Idempotent."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _OWNED.pop(folder, None)
    if lock is not None:
        os.close(lock)


_OWNED: dict[Path, int] = {}
"""The temporary folders of this process, each with the file by which it is locked."""


def _locked(folder: Path) -> int:
    """Lock *folder* for as long as this process lives; return the open file that does it."""
    new = folder / f"{OWNER}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(folder / OWNER)  # nobody finds it before it is locked
    return lock


def _remove_abandoned(folder: Path) -> None:
    """Remove this user's temporary folders whose processes were killed."""
    for left in folder.glob(f"{PREFIX}*/{OWNER}"):
        with suppress(OSError):
            if (
                left.stat().st_uid == os.getuid()
                and _is_free(left)
                and _is_free(left.parent / LOCK)
            ):
                shutil.rmtree(left.parent, ignore_errors=True)


def _is_free(file: Path) -> bool:
    """Return whether no process has locked *file*."""
    try:
        opened = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True

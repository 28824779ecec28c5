"""Writing a file so that it is there as a whole, or not at all."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from penstock.credentials.secret_file import replace_file
from penstock.errors import Overloaded, PenstockError, Refused, StoreFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_FREE_AGAIN = 500
"""Milliseconds after which a file may be open again: descriptors come back as calls end."""


def write_whole(file: Path, parts: Iterable[bytes], power: bool) -> None:
    """Write *parts* to *file*, or nothing; with *power* it survives power failures from then on.

    The next process removes an unfinished file; see `penstock.credentials.secret_file`.
    """
    replace_file(file, parts, flush=power)
    if power:
        sync_folder(file.parent)


def make_private_folder(folder: Path) -> None:
    """Have *folder*, for this user alone: users' code is in the files there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close_to_others(folder, 0o700)


def make_private_file(file: Path) -> None:
    """Have *file*, empty if it is new, for this user alone."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    _close_to_others(file, 0o600)


def _close_to_others(path: Path, mode: int) -> None:
    """Take from others what an earlier version let them do."""
    found = path.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(mode)


def remove_unfinished(file: Path) -> None:
    """Remove what a process that was killed left when it was to write *file*."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.*"):
        left.unlink(missing_ok=True)


def unwritten(file: Path, exc: OSError, then: str) -> PenstockError:
    """Return the error that says why *file* could not be written, and what to do *then*."""
    if exc.errno in _FULL:
        return StoreFull(
            f"the dispatcher has no room to write {file} ({exc.strerror}): free space there, or "
            f"raise the quota or limit, then {then}"
        )
    if (lacking := without_descriptors(file, exc, "write", then)) is not None:
        return lacking
    return Refused(f"work_dir: {file} cannot be written: {exc.strerror}")


def without_descriptors(file: Path, exc: OSError, what: str, then: str) -> Overloaded | None:
    """Return the error that says why nobody could *what* this *file*, if there was no descriptor.

    The file itself may be as it should be.
    """
    if exc.errno not in _NO_DESCRIPTORS:
        return None
    return Overloaded(
        f"the dispatcher may open no more files, and so cannot {what} {file} ({exc.strerror}): "
        "let it open more (ulimit -n, LimitNOFILE=; for the whole system, sysctl "
        f"fs.file-max), or wait until others are closed, then {then}",
        _FREE_AGAIN,
    )


def sync_folder(folder: Path) -> None:
    """Have the names of the files in *folder* outlast a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

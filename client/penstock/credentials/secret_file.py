"""Writes files that only their user may read, and refuses to read secrets from other files."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from penstock.errors import ConfigError

LARGEST = 1 << 20
"""Most bytes of a file of credentials; larger files are refused."""


REPLACE = "replace its content, which they may have read"


def read_secret(file: Path, exposed: str = REPLACE) -> bytes:
    """Return the content of *file*, which no other user may read.

    A group may also read a file of root's, because containers mount secrets that way. If others
    can read the file, the error says *exposed*: what to do besides `chmod`.

    Raises:
        ConfigError: when the file does not exist, belongs to another user, or others may read it.
    """
    try:
        with file.open("rb") as opened:
            _check_private(file, os.fstat(opened.fileno()), exposed)
            return _bounded(file, opened.read(LARGEST + 1))
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc


def read_public(file: Path) -> bytes:
    """Return the content of *file*, which anybody may read.

    Raises:
        ConfigError: when the file cannot be read.
    """
    try:
        with file.open("rb") as opened:
            return _bounded(file, opened.read(LARGEST + 1))
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc


def write_file(file: Path, data: bytes, *, secret: bool) -> None:
    """Replace *file* by one with *data*, as `replace_file` does; with *secret*, it is private.

    Raises:
        ConfigError: when the file cannot be written.
    """
    try:
        replace_file(file, (data,), mode=0o600 if secret else 0o644)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}") from exc


def replace_file(
    file: Path, parts: Iterable[bytes], *, mode: int = 0o600, flush: bool = False
) -> None:
    """Replace *file* atomically by one with *parts*; with *flush*, its content is on disk.

    If the process is killed, an unfinished file stays, named ``.NAME.`` and a suffix. It is never
    read.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            for part in parts:
                out.write(part)
            if mode != 0o600:  # which it has
                os.fchmod(out.fileno(), mode)
            if flush:
                out.flush()
                os.fsync(out.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check_private(file: Path, found: os.stat_result, exposed: str) -> None:
    if not hasattr(os, "getuid"):
        return  # Windows has other file permissions
    allowed = 0o740 if found.st_uid == 0 and os.getuid() != 0 else 0o700
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (0, os.getuid()):
        raise ConfigError(
            f"{file} belongs to user {found.st_uid}, and this process runs as user {os.getuid()}: "
            "that user knows its content; use a file of this user's own, or of root"
        )
    if mode & 0o777 & ~allowed:
        raise ConfigError(
            f"{file} can be read or changed by others (mode {mode:04o}): take it from them with "
            f"`chmod 600 {file}`, and {exposed}"
        )


def _bounded(file: Path, data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise ConfigError(f"{file} has more than {LARGEST} bytes: it is no file of credentials")
    return data

"""Landlock: what of the file system a process may still read and change, by the kernel's word.

It needs no privileges. A process that is restricted stays so, with all that it starts. It cannot
look into processes that are not (`ptrace`, ``/proc/PID/mem``), nor send them signals.

The kernel knows no "all but this": what is hidden is left out of a list of everything beside it,
and beside the folders above it. So these are as they were: nothing is made or removed right in
them, and what others put right into them later is not seen.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from penstock.errors import ConfigError

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""The same numbers on every architecture."""

_VERSION = 1  # asks for the version in place of a ruleset
_BENEATH = 1  # a rule about a path and all below it

LEAST = 3
"""Older versions do not know truncation, and so cannot keep a file as it is: Linux 6.2 has it."""

_SCOPES = 6
"""The version from which on signals can be kept inside."""
_SCOPE_SIGNAL = 1 << 1

_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_CHANGES = sum(1 << bit for bit in range(4, 13))
"""To make and to remove: files, folders, sockets, links and the like."""
_OF_FILES = _READ_FILE | _WRITE_FILE | _TRUNCATE
_ALL = _OF_FILES | _CHANGES | _REFER
"""To list a folder is always allowed, and so is to execute a file, which is to be readable."""

MOST = 10_000
"""The most entries of folders above hidden folders: each entry needs a rule."""

ALWAYS_WRITABLE = "/dev"
"""Terminals, accelerators, and memory that processes share."""


class FileRules(NamedTuple):
    """The access to the file system that is left.

    Attributes:
        hidden: folders that can be neither read nor changed.
        read_only: whether everything else can be read and not changed.
        writable: paths that can be changed nevertheless.
        covered: whether hidden folders are covered too (see `cover`): their files keep their modes.
    """

    hidden: tuple[str, ...] = ()
    read_only: bool = False
    writable: tuple[str, ...] = ()
    covered: bool = False

    def __bool__(self) -> bool:
        return bool(self.hidden) or self.read_only


def version() -> int:
    """Return which version of Landlock this kernel has; 0 is none."""
    found: int = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(found, 0)


def check(rules: FileRules) -> None:
    """Return if *rules* can be kept here.

    Raises:
        ConfigError: when the kernel has no Landlock, or a folder cannot be had.
    """
    if version() < LEAST:
        raise ConfigError(
            f"this kernel has no Landlock of version {LEAST} (Linux 6.2, with landlock among its "
            "security modules), by which runners are kept from files"
        )
    for one in rules.writable:
        if not os.path.exists(one):  # noqa: PTH110  strings all along: a fork has no time
            raise ConfigError(f"runner_writable: {one!r} is not there")
        real = os.path.realpath(one)
        for secret in rules.hidden:
            if is_below(secret, real) or is_below(real, secret):
                raise ConfigError(
                    f"runner_writable: {one!r} and the credentials in {secret} are one below the "
                    "other: keep credentials elsewhere"
                )
    try:
        list(_beside(rules.hidden))
    except OSError as exc:
        raise ConfigError(
            f"runners cannot be kept from the credentials in {', '.join(rules.hidden)}: {exc}; "
            "move them into a folder of their own, as /etc/penstock"
        ) from exc


def made(rules: FileRules) -> int:
    """Return a ruleset, as an open descriptor: `enter` restricts by it.

    Raises:
        OSError: when the kernel has none.
    """
    scoped = _SCOPE_SIGNAL if version() >= _SCOPES else 0
    attributes = struct.pack("=QQQ", _ALL, 0, scoped)
    size = len(attributes) if scoped else 8  # what an older kernel knows
    ruleset = _called(_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    allowed = _READ_FILE if rules.read_only else _ALL
    # Moving a file never gives it rights that it had not where it was.
    _add(ruleset, "/", _REFER if rules.hidden else allowed | _REFER)
    for path in _beside(rules.hidden) if rules.hidden else ():
        _add(ruleset, path, allowed)
    for path in (ALWAYS_WRITABLE, *rules.writable) if rules.read_only else ():
        _add(ruleset, os.path.realpath(path), _ALL)
    return ruleset


def enter(ruleset: int) -> None:
    """Restrict this process, which has given up new privileges, by *ruleset*, and close that.

    Raises:
        OSError: when the kernel does not.
    """
    try:
        _called(_RESTRICT, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _beside(hidden: Iterable[str]) -> Iterator[str]:
    """Yield everything that is neither hidden, nor above it, nor below something yielded.

    Raises:
        OSError: when a folder above cannot be listed, or has too many entries.
    """
    secrets, count = [os.path.realpath(one) for one in hidden], 0
    above = ["/"]
    while above:
        with os.scandir(above.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MOST:
                    raise OSError(f"there are more than {MOST} entries in the folders above")
                # What a link leads to is found where it is.
                if entry.is_symlink() or entry.path in secrets:
                    continue
                if any(is_below(one, entry.path) for one in secrets):
                    above.append(entry.path)
                else:
                    yield entry.path


def is_below(path: str, folder: str) -> bool:
    """Return whether *path* is *folder*, or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _add(ruleset: int, path: str, access: int) -> None:
    """Allow *access* to *path* and all below it; a path that no longer exists needs no rule."""
    with suppress(FileNotFoundError):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not stat.S_ISDIR(os.fstat(beneath).st_mode):
                access &= _OF_FILES
            rule = struct.pack("=Qi", access, beneath)
            _called(_ADD, ruleset, ctypes.c_int(_BENEATH), rule, ctypes.c_uint32(0))
        finally:
            os.close(beneath)


def _called(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        found = ctypes.get_errno()
        raise OSError(found, f"Landlock refused: {os.strerror(found)}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

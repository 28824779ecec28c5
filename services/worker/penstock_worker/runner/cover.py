"""Covers: what a process sees in place of a folder, in a mount namespace of its own.

Landlock has no right for `chmod`, `chown`, `utime` and extended attributes, so these would reach a
folder that it hides. On a cover they change the cover. Landlock then sees to it that the cover
stays: a process that it restricts mounts and unmounts nothing, and enters no other namespace.

root makes the namespace by its privileges. Any other user makes a user namespace first, in which
other users' files seem to belong to "nobody". Containers often allow neither. Nothing of Penstock
is imported, so that this file can be run by itself to try it (`possible`).

Sources: mount_namespaces(7), user_namespaces(7), capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_RECURSIVE, _SLAVE = 1 << 14, 1 << 19
_CAPABILITIES_3 = 0x20080522

MOST = 1000
"""Files that a cover has the names of; a folder of credentials has a dozen."""


def possible(folders: Iterable[str]) -> bool:
    """Return whether a process with the rights of this one can put covers on *folders*."""
    command = [sys.executable, "-I", "-S", __file__, *folders]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def put(folders: Iterable[str]) -> None:
    """Cover *folders* for this process, which has one thread, and for all that it starts.

    A cover has the names of the files and folders below, and every file in it is empty. So a
    function that opens one is told that it may not, as without a cover, and not that there is none.

    Raises:
        OSError: when the system does not allow it.
    """
    privileged = os.geteuid() == 0 or _has_capabilities()
    if privileged:
        _called("unshare", _NEW_MOUNTS)
    else:
        uid, gid = os.geteuid(), os.getegid()
        _called("unshare", _NEW_USERS | _NEW_MOUNTS)
        Path("/proc/self/setgroups").write_bytes(b"deny")
        Path("/proc/self/uid_map").write_bytes(b"%d %d 1" % (uid, uid))
        Path("/proc/self/gid_map").write_bytes(b"%d %d 1" % (gid, gid))
    # File systems that the host mounts later appear here too; what is mounted here stays here.
    _mount(None, "/", None, _RECURSIVE | _SLAVE, None)
    for folder in folders:
        _cover(folder)
    if not privileged:
        _give_up_capabilities()


def _cover(folder: str) -> None:
    names = _below(folder)
    _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0700,size=1m,nr_inodes=2k")
    for name, is_folder in names:
        path = Path(folder, name)
        if is_folder:
            path.mkdir(mode=0o700)
        else:
            path.touch(mode=0o600)


def _below(folder: str) -> list[tuple[str, bool]]:
    """Return the path of each entry below *folder*, folders first, and whether it is a folder."""
    found: list[tuple[str, bool]] = []
    for above, folders, files in os.walk(folder):
        for names, is_folder in ((folders, True), (files, False)):
            paths = [os.path.relpath(os.path.join(above, name), folder) for name in names]  # noqa: PTH118
            found += [(path, is_folder) for path in paths]
        if len(found) > MOST:
            break
    return found[:MOST]


def _has_capabilities() -> bool:
    """Return whether this process has rights that a user namespace would take from it."""
    lines = Path("/proc/self/status").read_bytes().splitlines()
    return any(line.startswith(b"CapEff:") and int(line.split()[1], 16) for line in lines)


def _give_up_capabilities() -> None:
    """Give up what the new user namespace gave to its maker."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _called("capset", header, (ctypes.c_uint32 * 6)())


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    texts = [None if one is None else os.fsencode(one) for one in (source, target, kind, options)]
    _called("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])


def _called(name: str, *arguments: object) -> None:
    if ctypes.CDLL(None, use_errno=True)[name](*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


if __name__ == "__main__":
    put(sys.argv[1:])

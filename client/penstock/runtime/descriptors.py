"""Checks that this process may open as many files as a connection needs.

gRPC ends the process if it cannot open its first files, so Penstock checks before.
"""

from __future__ import annotations

import errno
import os
import sys

from penstock.errors import Unavailable

if sys.platform != "win32":
    import resource

NEEDED = 24
"""File descriptors for the event loop, gRPC's poller, and connections to a dispatcher and a worker.

Experiments showed 16; the others are for files and modules opened at the same time."""


def check_room(needed: int = NEEDED) -> None:
    """Check that *needed* more files, sockets and the like may be open at once.

    Raises:
        Unavailable: when they may not; the message names the limit and the remedy.
    """
    held: list[int] = []
    try:
        held.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        while len(held) < needed:
            held.append(os.dup(held[0]))
    except OSError as exc:
        if exc.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise Unavailable(_told(needed, len(held), exc)) from exc
    finally:
        for descriptor in held:
            os.close(descriptor)


def _told(needed: int, free: int, exc: OSError) -> str:
    if exc.errno == errno.ENFILE:
        limit, remedy = "the whole system is at its limit", "raise it (sysctl fs.file-max)"
    else:
        limit = f"this process may have {_limit()} files open (RLIMIT_NOFILE)"
        remedy = "raise the limit (ulimit -n, LimitNOFILE=, resource.setrlimit)"
    return (
        f"there is no room for a connection: it needs {needed} file descriptors, and {free} are "
        f"free ({exc.strerror}): {limit}; {remedy}, or close files"
    )


def _limit() -> str:
    if sys.platform == "win32":
        return "no more"
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

"""The files that this process has open: room for more, and the connections among them.

gRPC ends the process if it cannot open its first files, so Penstock checks before.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

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


FILES = Path("/proc/self/fd")

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def most_files() -> int:
    """Return how many files this process may have open."""
    return os.sysconf("SC_OPEN_MAX")


def open_files() -> int:
    """Return how many files this process has open; 0 where that is not told."""
    try:
        counted = FILES.stat().st_size  # since Linux 6.2; before, 0
        return counted or sum(1 for _ in FILES.iterdir())
    except OSError:
        return 0


class AcceptedConnections:
    """The accepted connections at *port*, by the address and port that they come from.

    Another library owns them and lists them nowhere, but the kernel does: each is an open file of
    this process. If one is shut down here, the library sees that the other side has hung up.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[tuple[int, int], tuple[str, int] | None] = {}
        """By descriptor and inode, where each comes from; None is something else."""

    def look(self) -> list[tuple[str, int]]:
        """Return where those that are open now come from, the oldest first.

        Raises:
            OSError: when this process cannot look, as it has too many files open.
        """
        found: set[tuple[int, int]] = set()
        for file in FILES.iterdir():
            number = int(file.name)
            with suppress(OSError):  # it was closed meanwhile
                there = os.fstat(number)
                if stat.S_ISSOCK(there.st_mode):
                    found.add((number, there.st_ino))
        # Inodes grow with age only roughly, as each processor has a batch of them: those that were
        # known stay before those that are new.
        self._known = {key: origin for key, origin in self._known.items() if key in found}
        for key in sorted(found - self._known.keys(), key=itemgetter(1)):
            with suppress(OSError):  # one that cannot be looked at now is looked at again
                self._known[key] = self._origin(key[0])
        return [origin for origin in self._known.values() if origin is not None]

    def shut(self, origins: Iterable[tuple[str, int]]) -> None:
        """Shut down those that come from *origins*, as of the last look."""
        wanted = set(origins)
        for (number, inode), origin in self._known.items():
            if origin in wanted:
                with suppress(OSError):  # it is over
                    _shut(number, inode)

    def _origin(self, number: int) -> tuple[str, int] | None:
        with _as_socket(number) as sock:
            if sock.family in _FAMILIES and sock.getsockname()[1] == self._port:
                with suppress(OSError):  # it listens, or is over
                    host, port = sock.getpeername()[:2]
                    return str(host), int(port)
        return None


def _shut(number: int, inode: int) -> None:
    """Shut down the socket *number* if it still is the one of *inode*, and not another file."""
    if not _is_socket(number, inode):
        return
    # The number may become another file's at any moment; the copy does not change.
    copy = os.dup(number)
    if not stat.S_ISSOCK(os.fstat(copy).st_mode):
        # It stays open: a process that closes any number of a file loses its locks of that file
        # (POSIX), and what locks a file here is a database.
        return
    try:
        if _is_socket(copy, inode):
            with _as_socket(copy) as sock:
                sock.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(copy)


def _is_socket(number: int, inode: int) -> bool:
    found = os.fstat(number)
    return stat.S_ISSOCK(found.st_mode) and found.st_ino == inode


@contextmanager
def _as_socket(number: int) -> Iterator[socket.socket]:
    """Yield the socket that *number* is; its owner keeps it.

    Raises:
        OSError: when it is something else.
    """
    sock = socket.socket(fileno=number)
    try:
        yield sock
    finally:
        sock.detach()

"""The connections that this process accepted at a port, and an end to some of them.

They are another library's, which tells nobody of them. The kernel does: each is an open file of
this process. One that is shut down here ends for that library as if the far side had hung up.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
    """Those that were accepted at *port*, by the address and port that they come from."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[tuple[int, int], tuple[str, int] | None] = {}
        """By descriptor and inode, where each comes from; None is something else."""

    def look(self) -> list[tuple[str, int]]:
        """Return where those that are open now come from, the oldest first.

        Raises:
            OSError: when this process cannot look, as it has too many files open.
        """
        before, self._known = self._known, {}
        for file in FILES.iterdir():
            number = int(file.name)
            with suppress(OSError):  # it was closed meanwhile
                found = os.fstat(number)
                if stat.S_ISSOCK(found.st_mode):
                    key = number, found.st_ino
                    # One that cannot be looked at now is looked at again.
                    self._known[key] = before[key] if key in before else self._origin(number)
        by_age = sorted(self._known.items(), key=lambda item: item[0][1])
        return [origin for _, origin in by_age if origin is not None]

    def shut(self, origins: Iterable[tuple[str, int]]) -> None:
        """Shut down those that come from *origins*, as of the last look."""
        wanted = set(origins)
        for (number, inode), origin in self._known.items():
            if origin in wanted:
                with suppress(OSError), self._held(number) as sock:
                    # The number may be another file's by now: the copy is looked at, and stays.
                    if os.fstat(sock.fileno()).st_ino == inode:
                        sock.shutdown(socket.SHUT_RDWR)

    def _origin(self, number: int) -> tuple[str, int] | None:
        with self._held(number) as sock:
            if sock.family in _FAMILIES and sock.getsockname()[1] == self._port:
                with suppress(OSError):  # it listens, or is over
                    host, port = sock.getpeername()[:2]
                    return str(host), int(port)
        return None

    @staticmethod
    def _held(number: int) -> socket.socket:
        return socket.socket(fileno=os.dup(number))

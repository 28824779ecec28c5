"""Accepts readers on the worker's host: a unix socket, and a connection for each reader."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from penstock.errors import ConfigError, Unauthenticated
from penstock.runtime.linux import boot_id
from penstock.transport.link_messages import Hello
from penstock_worker.core.loans import BorrowerId
from penstock_worker.linked_reader import Lender, LinkedReader, Streams
from penstock_worker.reader_door import BACKLOG, ReaderDoor
from penstock_worker.runners import ActiveRunners
from penstock_worker.shm_reader import LocalReader

log = logging.getLogger("penstock.worker")

LONGEST_PATH = 107
"""Bytes of a path that a unix socket can have."""

ENDING, NEW = ".sock", ".new"


@contextmanager
def opened(folder: str | None) -> Iterator[ShmDoor | None]:
    """Listen in *folder*, or in one of this user's own; yield None if that fails.

    Raises:
        ConfigError: if *folder* was given, and no socket can be made there.
    """
    try:
        door = ShmDoor(_usual_folder() if folder is None else Path(folder))
    except OSError as exc:
        if folder is not None:
            raise ConfigError(f"socket_dir {folder!r} cannot hold a socket: {exc}") from exc
        log.warning("readers on this host will not share memory with this worker: %s", exc)
        yield None
        return
    try:
        yield door
    finally:
        door.close()


def _usual_folder() -> Path:
    folder = Path(tempfile.gettempdir(), f"penstock-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's folder")
    return folder


class ShmDoor(ReaderDoor):
    """A socket in *folder*; see `ReaderDoor`. Readers keep the frames that they use after it."""

    def __init__(self, folder: Path) -> None:
        self.boot_id = boot_id()
        self.path = str(folder.resolve() / f"worker-{secrets.token_hex(8)}{ENDING}")
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            raise OSError(f"its path {self.path} is longer than {LONGEST_PATH} bytes")
        _sweep(folder)
        super().__init__(_listening(self.path))

    def close(self) -> None:
        """See `ReaderDoor.close`."""
        if self._sock.fileno() >= 0:
            with suppress(FileNotFoundError):
                Path(self.path).unlink()
        super().close()

    def _reader(
        self, sock: socket.socket, borrower: BorrowerId, worker: Lender, runners: ActiveRunners
    ) -> LinkedReader:
        admit, gone = partial(self._admit, _user(sock)), self._on_gone
        link = sock, borrower, worker, runners
        return LocalReader(*link, admit=admit, gone=gone, largest=self._largest)

    def _admit(self, user: str, reader: LinkedReader, hello: Hello) -> Streams:
        """Let *reader* of *user* in, or raise an error that says why it may not come in."""
        if hello.boot_id != self.boot_id:
            raise Unauthenticated(
                f"this host's boot id is {self.boot_id}, and the reader's is {hello.boot_id:.80}"
            )
        self._knows_token(hello)
        return self._let_in(user, reader)


def _listening(path: str) -> socket.socket:
    """Return a socket that listens at *path*."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Under its name it appears only when it answers: others sweep away what does not.
        before = path.removesuffix(ENDING) + NEW
        sock.bind(before)
        # Folders say who may come in; the token says who is meant.
        Path(before).chmod(0o666)
        sock.listen(BACKLOG)
        Path(before).rename(path)
    except OSError:
        sock.close()
        raise
    return sock


def _user(sock: socket.socket) -> str:
    """Return the user of the process at the other end, as the system knows it."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return f"user {struct.unpack('3i', told)[1]}"


def _sweep(folder: Path) -> None:
    """Remove sockets that do not answer: killed workers left them."""
    for path in folder.glob(f"worker-*{ENDING}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                with suppress(OSError):
                    path.unlink()
            except OSError:
                pass  # it is busy, or another's

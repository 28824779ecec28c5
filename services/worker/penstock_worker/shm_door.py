"""Accepts readers on the worker's host: a unix socket, and a connection for each reader."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import socket
import stat
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from penstock.credentials.per_identity import PerIdentity
from penstock.errors import ConfigError, Overloaded
from penstock.protocol.data import ReadRequest
from penstock.runtime.descriptors import most_files
from penstock.runtime.linux import boot_id
from penstock.transport.shm_messages import FromWorker
from penstock_worker.config import WorkerConfig
from penstock_worker.core.loans import BorrowerId
from penstock_worker.reply_form import ReplyForm
from penstock_worker.runners import ActiveRunners
from penstock_worker.shm_reader import LocalReader, Streams

log = logging.getLogger("penstock.worker")

LONGEST_PATH = 107
"""Bytes of a path that a unix socket can have."""

ENDING, NEW = ".sock", ".new"

BACKLOG = 4096

AGAIN = 1.0
"""Seconds until the next try to accept a connection, after there was no room for one."""


class Lender(Protocol):
    """A worker, as readers on its host use it."""

    def lend(
        self, requests: AsyncIterator[ReadRequest], form: ReplyForm[list[FromWorker]]
    ) -> AsyncIterator[list[FromWorker]]:
        """Deliver a task's elements to one reader, as `WorkerApi.read` does in bytes."""
        ...


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


class ShmDoor:
    """A socket in *folder*. A reader must know `token`, which the dispatcher tells readers."""

    def __init__(self, folder: Path) -> None:
        self.boot_id, self.token = boot_id(), secrets.token_hex(16)
        self.path = str(folder.resolve() / f"worker-{secrets.token_hex(8)}{ENDING}")
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            raise OSError(f"its path {self.path} is longer than {LONGEST_PATH} bytes")
        _sweep(folder)
        self._worker: Lender | None = None
        self._runners: ActiveRunners | None = None
        self._readers: set[LocalReader] = set()
        self._silent: dict[LocalReader, None] = {}
        """Connections that have not identified themselves yet, the oldest first."""
        self._numbers = count(1)
        self._loop = asyncio.get_running_loop()
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.setblocking(False)
            # Under its name it appears only when it answers: others sweep away what does not.
            before = self.path.removesuffix(ENDING) + NEW
            self._sock.bind(before)
            # Folders say who may come in; the token says who is meant.
            Path(before).chmod(0o666)
            self._sock.listen(BACKLOG)
            Path(before).rename(self.path)
        except OSError:
            self._sock.close()
            raise

    def serve(self, worker: Lender, runners: ActiveRunners, bounds: WorkerConfig) -> None:
        """Accept readers from now on; each user has the same limits as with gRPC."""
        self._largest = bounds.limits["max_message_bytes"]
        self._worker, self._runners = worker, runners
        # Each connection is a file of this process, which needs files for other things too.
        most = min(bounds.limits["max_connections_per_identity"], max(most_files() // 4, 1))
        self._most_silent = most
        self._met = PerIdentity(most, "connections", "max_connections_per_identity")
        most = bounds.limits["max_calls_per_identity"]
        self._streams = PerIdentity(most, "streams open", "max_calls_per_identity")
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def close(self) -> None:
        """Close all connections; readers keep the frames that they use. Idempotent."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        with suppress(FileNotFoundError):
            Path(self.path).unlink()
        for reader in tuple(self._readers):
            reader.close()
        # A loop that has ended may still refer to its callbacks.
        self._worker = self._runners = None

    def _accept(self) -> None:
        if self._worker is None or self._runners is None:
            return
        try:
            sock, _ = self._sock.accept()
        except BlockingIOError:
            return
        except OSError as exc:
            log.warning("a reader on this host must wait: %s", exc)
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_later(AGAIN, self._listen_again)
            return
        # Silent connections make room, the oldest first: an honest reader says hello at once.
        if len(self._silent) >= self._most_silent:
            next(iter(self._silent)).close()
        user = _user(sock)
        reader = LocalReader(
            sock,
            BorrowerId(next(self._numbers)),
            self._worker.lend,
            self._runners,
            admit=partial(self._refusal, user),
            gone=partial(self._on_gone, user),
            streams=Streams(user, self._streams),
            largest=self._largest,
        )
        self._readers.add(reader)
        self._silent[reader] = None

    def _listen_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def _on_gone(self, user: str, reader: LocalReader) -> None:
        if reader in self._readers:
            self._readers.discard(reader)
            if reader.admitted:
                self._met.give_back(user)
        self._silent.pop(reader, None)

    def _refusal(self, user: str, reader: LocalReader, theirs: str, token: str) -> str:
        """Return why a reader of *user* with this hello is refused, or an empty text."""
        if theirs != self.boot_id:
            return f"this host's boot id is {self.boot_id}, and the reader's is {theirs:.80}"
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return "the reader does not know this worker's token: it looks for another one"
        try:
            self._met.take(user)
        except Overloaded as exc:
            return str(exc)
        self._silent.pop(reader, None)
        return ""


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

"""Accepts readers on links: a listening socket, and a connection for each reader.

`shm_door` is for readers on this host, `tcp_door` for all others.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
from abc import ABC, abstractmethod
from itertools import count

from penstock.credentials.per_identity import PerIdentity
from penstock.errors import Unauthenticated
from penstock.runtime.descriptors import most_files
from penstock.transport.link_messages import Hello
from penstock_worker.config import WorkerConfig
from penstock_worker.core.loans import BorrowerId
from penstock_worker.linked_reader import Lender, LinkedReader, Streams
from penstock_worker.runners import ActiveRunners

log = logging.getLogger("penstock.worker")

BACKLOG = 4096

AGAIN = 1.0
"""Seconds until the next try to accept a connection, after there was no room for one."""

BORROWERS = count(1)
"""The numbers of the readers at all doors: loans are counted by them."""


class ReaderDoor(ABC):
    """A listening socket. A reader must know `token`, which the dispatcher tells readers."""

    def __init__(self, sock: socket.socket) -> None:
        self.token = secrets.token_hex(16)
        self._sock = sock
        self._worker: Lender | None = None
        self._runners: ActiveRunners | None = None
        self._readers: dict[LinkedReader, str] = {}
        """The connections, with the identities of those that have one."""
        self._silent: dict[LinkedReader, None] = {}
        """Connections that have not identified themselves yet, the oldest first."""
        self._loop = asyncio.get_running_loop()

    def serve(self, worker: Lender, runners: ActiveRunners, bounds: WorkerConfig) -> None:
        """Accept readers from now on; each identity has the same limits as with gRPC."""
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
        """Close all connections. Idempotent."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
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
            log.warning("a reader must wait: %s", exc)
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_later(AGAIN, self._listen_again)
            return
        # Silent connections make room, the oldest first: an honest reader says hello at once.
        if len(self._silent) >= self._most_silent:
            next(iter(self._silent)).close()
        borrower = BorrowerId(next(BORROWERS))
        reader = self._reader(sock, borrower, self._worker, self._runners)
        self._readers[reader] = ""
        self._silent[reader] = None

    @abstractmethod
    def _reader(
        self, sock: socket.socket, borrower: BorrowerId, worker: Lender, runners: ActiveRunners
    ) -> LinkedReader:
        """Return the reader at the other end of *sock*."""

    def _listen_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def _on_gone(self, reader: LinkedReader) -> None:
        if name := self._readers.pop(reader, ""):
            self._met.give_back(name)
        self._silent.pop(reader, None)

    def _let_in(self, name: str, reader: LinkedReader) -> Streams:
        """Count *reader* as one of the identity *name*; return the count of its streams.

        Raises:
            Overloaded: when that identity has too many.
        """
        self._met.take(name)
        self._readers[reader] = name
        self._silent.pop(reader, None)
        return Streams(name, self._streams)

    def _knows_token(self, hello: Hello) -> None:
        """Check the token of *hello*.

        Raises:
            Unauthenticated: when it is not this door's.
        """
        if not hmac.compare_digest(hello.token.encode(), self.token.encode()):
            raise Unauthenticated(
                "the reader does not know this worker's token: it looks for another one"
            )

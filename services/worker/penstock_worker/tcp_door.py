"""Accepts readers over TCP: a port, and a connection for each reader."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from penstock.credentials.entrance import Entrance
from penstock.errors import ConfigError, PenstockError
from penstock.ipc.tcp_socket import tune
from penstock.runtime.address import is_of_this_host
from penstock.transport.link_messages import Hello
from penstock.wire.connections import plain_address
from penstock.wire.worker import READ
from penstock_worker.core.loans import BorrowerId
from penstock_worker.linked_reader import Lender, LinkedReader, Streams
from penstock_worker.reader_door import BACKLOG, ReaderDoor
from penstock_worker.runners import ActiveRunners
from penstock_worker.tcp_reader import RemoteReader

log = logging.getLogger("penstock.worker")


@contextmanager
def opened(host: str, port: int | None, entrance: Entrance) -> Iterator[TcpDoor | None]:
    """Listen on *port* of *host* (0 takes any), for callers that *entrance* admits.

    Yield None if *port* is None, or if the service uses TLS, which this door does not speak.

    Raises:
        ConfigError: if the port cannot be had.
    """
    if port is None or entrance.folder is not None:
        yield None
        return
    try:
        door = TcpDoor(_listening(host, port), entrance)
    except OSError as exc:
        raise ConfigError(f"data_port {port} of {host} cannot be listened on: {exc}") from exc
    try:
        yield door
    finally:
        door.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server(
        (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::"
    )
    sock.setblocking(False)
    return sock


class TcpDoor(ReaderDoor):
    """A listening TCP socket; see `ReaderDoor`. A reader also shows what it would show by gRPC."""

    def __init__(self, sock: socket.socket, entrance: Entrance) -> None:
        super().__init__(sock)
        self.port: int = sock.getsockname()[1]
        self._guard, self._counts = entrance.guard, entrance.calls

    def _reader(
        self, sock: socket.socket, borrower: BorrowerId, worker: Lender, runners: ActiveRunners
    ) -> LinkedReader:
        address = _address(sock)
        with suppress(OSError):  # it has hung up
            tune(sock)
        return RemoteReader(
            sock,
            borrower,
            worker,
            runners,
            admit=partial(self._admit, address),
            gone=self._on_gone,
            largest=self._largest,
            near=is_of_this_host(address),
        )

    def _admit(self, address: str, reader: LinkedReader, hello: Hello) -> Streams:
        """Let *reader* at *address* in, or raise an error that says why it may not come in."""
        try:
            identity = self._guard.admit(READ.path, hello.shown)
            self._knows_token(hello)
            proven = identity is not None and identity.proven
            streams = self._let_in(identity.name if identity and proven else address, reader)
        except PenstockError as exc:
            self._counts.failed[READ.path, type(exc).__name__] += 1
            raise
        self._counts.opened[READ.path] += 1
        return streams


def _address(sock: socket.socket) -> str:
    """Return the address at the other end."""
    try:
        return plain_address(sock.getpeername()[0])
    except OSError:  # it has hung up
        return "nobody"

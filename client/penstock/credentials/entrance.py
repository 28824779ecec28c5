"""How a service lets others in. It is closed, unless somebody says otherwise."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.credentials.call_counts import CallCounts
from penstock.credentials.folder import ServiceCredentials, WatchedFolder, folder_of, load_service
from penstock.credentials.guard import Guard, LocalGuard, OpenGuard, TensorFlowGuard, TokenGuard
from penstock.credentials.local import LocalKey, is_loopback, user_folder
from penstock.credentials.seal import check_seal, seal
from penstock.errors import ConfigError

MAX_CALLS, MAX_CALLS_PER_IDENTITY = 20_000, 10_000
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IDENTITY = 10_000, 4_096
MAX_HTTP_CONNECTIONS = 512
MAX_MESSAGE_BYTES = 1 << 26


class Security(Enum):
    """What protects a service, as its status says it."""

    CREDENTIALS = "TLS and tokens"
    LOCAL = "this user's processes on this host"
    INSECURE = "nothing (--insecure)"


@dataclass(slots=True)
class BoundPort:
    """The port of a service, once it is bound; 0 before."""

    number: int = 0

    def __call__(self) -> int:
        """Return it."""
        return self.number


@dataclass(slots=True)
class Entrance:
    """What a service asks of whoever calls, and what it shows them."""

    security: Security
    guard: Guard
    max_calls: int = MAX_CALLS
    """How many calls and streams may be open at once."""
    max_calls_per_identity: int = MAX_CALLS_PER_IDENTITY
    """How many of them one identity may have."""
    max_connections: int = MAX_CONNECTIONS
    """How many connections there may be."""
    max_connections_per_identity: int = MAX_CONNECTIONS_PER_IDENTITY
    """How many of them one identity may have."""
    max_http_connections: int = MAX_HTTP_CONNECTIONS
    """How many connections of HTTP there may be."""
    ports: int = 1
    """At how many ports this process answers by gRPC: they share the files it may have open."""
    folder: WatchedFolder | None = None
    """What TLS is done with; None is no TLS."""
    calls: CallCounts = field(default_factory=CallCounts)
    """What was called here."""
    port: BoundPort = field(default_factory=BoundPort)
    """Set to the port that is bound."""

    def for_tensorflow(self) -> Entrance:
        """Return how a port of TensorFlow's protocol alone lets others in: all of them."""
        return replace(
            self,
            security=Security.INSECURE,
            guard=TensorFlowGuard(),
            folder=None,
            port=BoundPort(),
        )

    @property
    def definitions_key(self) -> bytes:
        """What definitions are sealed with; nothing where there are no credentials."""
        found = None if self.folder is None else self.folder.current()
        return found.definitions if isinstance(found, ServiceCredentials) else b""

    def seal(self, dataset: str, definition: bytes) -> bytes:
        """Return the seal of *definition*; nothing where there are no credentials."""
        key = self.definitions_key
        return seal(key, dataset, definition) if key else b""

    def check_seal(self, dataset: str, definition: bytes, found: bytes) -> None:
        """Return if *found* is the seal of *definition*, or there are no credentials.

        Raises:
            TamperedDefinition: when it is not.
        """
        if key := self.definitions_key:
            check_seal(key, dataset, definition, found)


def security_of(credentials: str | None, *, insecure: bool) -> Security:
    """Return what protects a service with such settings."""
    if credentials:
        return Security.CREDENTIALS
    return Security.INSECURE if insecure else Security.LOCAL


def entrance_of(host: str, credentials: str | None, *, insecure: bool, role: str = "") -> Entrance:
    """Return how a service lets others in that listens on *host*.

    Args:
        host: the interface.
        credentials: the folder of its role, if it has one.
        insecure: whether everybody is let in on purpose.
        role: whose folder it is, where *credentials* has one for each role.

    Raises:
        ConfigError: when others than this host can connect and nothing says who may, or the
            credentials cannot be used.
    """
    if credentials:
        folder = WatchedFolder(folder_of(credentials, role), load_service)
        return Entrance(Security.CREDENTIALS, TokenGuard(folder), folder=folder)
    if insecure:
        return Entrance(Security.INSECURE, OpenGuard())
    if not is_loopback(host):
        raise ConfigError(
            f"host={host!r} lets other machines connect, and whoever does could run code: give "
            "credentials=FOLDER (--credentials, PENSTOCK_CREDENTIALS), which `penstock keys init` "
            "makes; or, where every member of the network is trusted, insecure=True (--insecure)"
        )
    port = BoundPort()
    guard = LocalGuard(LocalKey(user_folder()), port, time.time)
    return Entrance(Security.LOCAL, guard, port=port)

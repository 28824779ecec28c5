"""Decides which callers a service accepts. Without settings, it accepts no other machines."""

from __future__ import annotations

import hmac
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from penstock.credentials.folder import ServiceCredentials, WatchedFolder, folder_of, load_service
from penstock.credentials.guard import Guard, LocalGuard, OpenGuard, TensorFlowGuard, TokenGuard
from penstock.credentials.limits import limits_of
from penstock.credentials.local import LocalKey, is_loopback, user_folder
from penstock.credentials.per_identity import CallCounts
from penstock.errors import ConfigError, TamperedDefinition


class Security(Enum):
    """The protection of a service, in the words of its status."""

    CREDENTIALS = "TLS and tokens"
    LOCAL = "this user's processes on this host"
    INSECURE = "nothing (--insecure)"


@dataclass(slots=True)
class BoundPort:
    """The port of a service, once it is bound; 0 before."""

    number: int = 0

    def __call__(self) -> int:
        """Return the port."""
        return self.number


@dataclass(slots=True)
class Entrance:
    """A service's rules for callers, its limits, and its own TLS credentials."""

    security: Security
    guard: Guard
    limits: Mapping[str, int] = field(default_factory=partial(limits_of, "dispatcher"))
    """The limits of the service, by name."""
    ports: int = 1
    """How many gRPC ports this process has; they share its limit of open files."""
    folder: WatchedFolder | None = None
    """The credentials for TLS; None means no TLS."""
    calls: CallCounts = field(default_factory=CallCounts)
    """Counts of the calls to this service."""
    port: BoundPort = field(default_factory=BoundPort)
    """Set to the port that is bound."""

    def for_tensorflow(self) -> Entrance:
        """Return the entrance of a port that serves only TensorFlow's protocol: it admits all."""
        return replace(
            self,
            security=Security.INSECURE,
            guard=TensorFlowGuard(),
            folder=None,
            port=BoundPort(),
        )

    @property
    def definitions_key(self) -> bytes:
        """The key that seals definitions; empty if there are no credentials."""
        found = None if self.folder is None else self.folder.current()
        return found.definitions if isinstance(found, ServiceCredentials) else b""

    def seal(self, dataset: str, definition: bytes) -> bytes:
        """Return the seal of *definition*; empty if there are no credentials."""
        key = self.definitions_key
        return seal(key, dataset, definition) if key else b""

    def check_seal(self, dataset: str, definition: bytes, found: bytes) -> None:
        """Check that *found* is the seal of *definition*; without credentials, check nothing.

        Raises:
            TamperedDefinition: when *found* is not the seal.
        """
        if key := self.definitions_key:
            check_seal(key, dataset, definition, found)


def security_of(credentials: str | None, *, insecure: bool) -> Security:
    """Return the protection of a service with these settings."""
    if credentials:
        return Security.CREDENTIALS
    return Security.INSECURE if insecure else Security.LOCAL


def entrance_of(host: str, credentials: str | None, *, insecure: bool, role: str = "") -> Entrance:
    """Return the entrance of a service that listens on *host*.

    Args:
        host: the interface.
        credentials: the folder of the service's role, if it has one.
        insecure: whether the service admits everybody on purpose.
        role: the role, which selects a subfolder if *credentials* has one for each role.

    Raises:
        ConfigError: when other hosts can connect and no setting says who may call, or when
            the credentials cannot be used.
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


# --- seals of definitions: a worker's proof that a trainer gave its dispatcher a definition ---

SIZE = 32
"""Bytes of a seal."""


def seal(key: bytes, dataset: str, definition: bytes) -> bytes:
    """Return the seal of *definition*, registered as *dataset*: who has no *key* cannot make it."""
    name = dataset.encode()
    mac = hmac.new(key, struct.pack("<I", len(name)) + name, "sha256")
    mac.update(definition)
    return mac.digest()


def check_seal(key: bytes, dataset: str, definition: bytes, found: bytes) -> None:
    """Return if *found* is the seal of *definition*.

    Raises:
        TamperedDefinition: when it is not.
    """
    if hmac.compare_digest(seal(key, dataset, definition), found):
        return
    why = "has another seal than" if found else "has no seal of"
    raise TamperedDefinition(
        f"the definition of dataset {dataset[:80]} {why} this worker's dispatcher: it was changed "
        "after a trainer registered it, or the two have different definitions.key files. It is not "
        "run; compare the keys, and look who can write to the dispatcher's work_dir"
    )

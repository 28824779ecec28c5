"""The credentials that a process shows to services, and the services that it trusts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from penstock.credentials.certificate import trouble
from penstock.credentials.folder import (
    ClientCredentials,
    Tls,
    WatchedFolder,
    folder_of,
    load_client,
)
from penstock.credentials.local import LocalKey, is_loopback, user_folder
from penstock.credentials.roles import AccessRole
from penstock.errors import ConfigError

VARIABLE = "PENSTOCK_CREDENTIALS"

PLAIN = ""
"""Instead of a folder: no TLS and no token."""

TRAINER, OPERATOR = AccessRole.TRAINER.value, AccessRole.OPERATOR.value

AGAIN = 1.0
"""Seconds for which a proof is reused; then a new one is made, as the key may have changed."""


class LocalCaller:
    """Shows a proof to services on loopback and nothing to other services; uses no TLS.

    Args:
        folder: returns the folder with this user's key.
        clock: returns seconds of Unix time.
    """

    tls = None
    hint = "if it speaks TLS, call it with credentials (grpcs://)"
    """A possible reason why a service closes the connection."""

    def __init__(
        self, folder: Callable[[], Path] = user_folder, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._clock = folder, clock
        self._proofs: dict[int, tuple[float, str]] = {}

    def shown(self, host: str, port: int) -> str:
        """Return the proof for the service there; empty if there is no key."""
        if not is_loopback(host):
            return ""
        now = self._clock()
        made, proof = self._proofs.get(port, (0.0, ""))
        if not made <= now < made + AGAIN:
            self._proofs.clear()  # simple is enough: there are few services on a host
            with suppress(ConfigError):  # if the service needs a proof, its refusal explains that
                proof = LocalKey(self._folder()).proof(port, now)
            self._proofs[port] = now, proof
        return proof

    def trouble(self) -> str:
        """Return an empty string: there is no certificate that a service could refuse."""
        return ""


class TokenCaller:
    """Shows a folder's token, over TLS, to services that the folder's CAs have certified.

    It shows the folder's certificate when it connects.
    """

    hint = (
        "or the service does not trust the CA of this process's certificate, or speaks no TLS: its "
        "log says more; give all processes the folders that `penstock keys` made last"
    )
    """A possible reason why a service closes the connection."""

    def __init__(self, folder: WatchedFolder) -> None:
        self._folder = folder

    @property
    def tls(self) -> Tls:
        """The current CAs, key and certificate for connections."""
        return self._found().tls

    def shown(self, _host: str, _port: int) -> str:
        """Return the token, the same for every service."""
        return self._found().token

    def trouble(self) -> str:
        """Return why services refuse this process's certificate, if the certificate shows it."""
        return trouble(self.tls, time.time())

    def _found(self) -> ClientCredentials:
        found = self._folder.current()
        return found if isinstance(found, ClientCredentials) else found.client


Caller: TypeAlias = LocalCaller | TokenCaller

LOCAL = LocalCaller()

_lock = threading.Lock()
_callers: dict[str, TokenCaller] = {}
_chosen: dict[str, str] = {}


def caller_with(folder: str, role: str = TRAINER) -> Caller:
    """Return a caller with the credentials in *folder*; with none if *folder* is `PLAIN`.

    If *folder* has a subfolder for each role, the one of *role* is used.

    Raises:
        ConfigError: when there are no credentials, or other users can read them.
    """
    if folder == PLAIN:
        return LOCAL
    place = str(folder_of(folder, role).resolve())
    with _lock:
        if place not in _callers:
            _callers[place] = TokenCaller(WatchedFolder(Path(place), load_client))
        return _callers[place]


def choose(address: str, folder: str) -> None:
    """From now on, call the dispatcher at *address* with the credentials in *folder*."""
    with _lock:
        _chosen[address] = folder


def choose_first(address: str, folder: str) -> None:
    """Do as `choose`, unless a folder was already chosen for *address*."""
    with _lock:
        _chosen.setdefault(address, folder)


def caller_of(address: str, env: Mapping[str, str] = os.environ, *, role: str = TRAINER) -> Caller:
    """Return the caller for the dispatcher at *address* and its workers.

    It uses the folder that `choose` set for *address*, or else ``PENSTOCK_CREDENTIALS``; see
    `caller_with`.

    Raises:
        ConfigError: when that is not a folder of credentials.
    """
    with _lock:
        folder = _chosen.get(address)
    return caller_with(env.get(VARIABLE, PLAIN) if folder is None else folder, role)

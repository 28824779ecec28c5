"""What a process shows to the services that it calls, and whom it trusts to answer."""

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
"""In place of a folder: no TLS, and no token."""

TRAINER, OPERATOR = AccessRole.TRAINER.value, AccessRole.OPERATOR.value

AGAIN = 1.0
"""Seconds for which a proof is shown; then another one is made, as the key may have changed."""


class LocalCaller:
    """Shows a proof to services on loopback, and nothing to others; there is no TLS.

    Args:
        folder: returns where this user's key is.
        clock: seconds of Unix time.
    """

    tls = None
    hint = "if it speaks TLS, call it with credentials (grpcs://)"
    """What may be, where a service hangs up."""

    def __init__(
        self, folder: Callable[[], Path] = user_folder, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._clock = folder, clock
        self._proofs: dict[int, tuple[float, str]] = {}

    def shown(self, host: str, port: int) -> str:
        """Return what to show to the service there; nothing where there is no key to be had."""
        if not is_loopback(host):
            return ""
        now = self._clock()
        made, proof = self._proofs.get(port, (0.0, ""))
        if not made <= now < made + AGAIN:
            self._proofs.clear()  # of one moment: there are few services on a host
            with suppress(ConfigError):  # the service says what it wants, if it wants this
                proof = LocalKey(self._folder()).proof(port, now)
            self._proofs[port] = now, proof
        return proof

    def trouble(self) -> str:
        """Return nothing: there is no certificate that a service could refuse."""
        return ""


class TokenCaller:
    """Shows the token of a folder, by TLS, to services that its CAs have certified.

    Its certificate is shown when a connection is made.
    """

    hint = (
        "or the service does not trust the CA of this process's certificate, or speaks no TLS: its "
        "log says more; give all processes the folders that `penstock keys` made last"
    )
    """What may be, where a service hangs up."""

    def __init__(self, folder: WatchedFolder) -> None:
        self._folder = folder

    @property
    def tls(self) -> Tls:
        """What connections are made with, as it is now."""
        return self._found().tls

    def shown(self, _host: str, _port: int) -> str:
        """Return what to show to the service there."""
        return self._found().token

    def trouble(self) -> str:
        """Return why services refuse this process's certificate, if that can be seen in it."""
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
    """Return what calls with the credentials in *folder*; or with none, if that is `PLAIN`.

    Where *folder* has one for each role, that of *role* is meant.

    Raises:
        ConfigError: when there are none, or others can read them.
    """
    if folder == PLAIN:
        return LOCAL
    place = str(folder_of(folder, role).resolve())
    with _lock:
        if place not in _callers:
            _callers[place] = TokenCaller(WatchedFolder(Path(place), load_client))
        return _callers[place]


def choose(address: str, folder: str) -> None:
    """Have this process call the dispatcher at *address* with *folder*, from now on."""
    with _lock:
        _chosen[address] = folder


def choose_first(address: str, folder: str) -> None:
    """Do as `choose`, unless something was chosen for *address* before."""
    with _lock:
        _chosen.setdefault(address, folder)


def caller_of(address: str, env: Mapping[str, str] = os.environ, *, role: str = TRAINER) -> Caller:
    """Return what calls the dispatcher at *address*, and its workers.

    That is what was chosen for it, or what ``PENSTOCK_CREDENTIALS`` says; see `caller_with`.

    Raises:
        ConfigError: when that is no folder of credentials.
    """
    with _lock:
        folder = _chosen.get(address)
    return caller_with(env.get(VARIABLE, PLAIN) if folder is None else folder, role)

"""The credentials that a process shows to services, and the services that it trusts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from penstock.credentials.access import AccessRole
from penstock.credentials.folder import (
    CA,
    CERTIFICATE,
    ClientCredentials,
    Tls,
    WatchedFolder,
    folder_of,
    load_client,
    unfit_pair,
)
from penstock.credentials.local import LocalKey, is_loopback, user_folder
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


# --- faults in this process's certificate, after a service hung up, which gives no reason ---

_REMEDY = "make another one with `penstock keys renew`"


def trouble(tls: Tls, now: float) -> str:
    """Return why services refuse the certificate in *tls* at *now*; nothing if it looks good.

    Args:
        tls: what connections are made with.
        now: seconds of Unix time.
    """
    from cryptography import x509  # noqa: PLC0415  who has no trouble needs none
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    if unfit := unfit_pair(tls):
        return f"of this process's credentials, {unfit}"
    mine = x509.load_pem_x509_certificate(tls.certificate)
    clock = datetime.fromtimestamp(now, UTC)
    said = f"the clock of this host says {clock:%Y-%m-%d %H:%M:%S} UTC"
    if clock > mine.not_valid_after_utc:
        return (
            f"this process's certificate expired {mine.not_valid_after_utc:%Y-%m-%d %H:%M:%S} "
            f"UTC, and {said}; {_REMEDY}, or set the clock"
        )
    if clock < mine.not_valid_before_utc:
        return (
            "this process's certificate is good from "
            f"{mine.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC on, and {said}: this clock, or the "
            "one where it was made, is off; set it"
        )
    for authority in x509.load_pem_x509_certificates(tls.ca):
        with suppress(ValueError, TypeError, InvalidSignature):
            mine.verify_directly_issued_by(authority)
            return ""
    return (
        f"this process's {CERTIFICATE} was made by none of the CAs in its {CA}: it is of another "
        f"cluster, or of a CA that was taken out of use; {_REMEDY}"
    )

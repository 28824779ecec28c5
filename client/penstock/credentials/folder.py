"""A folder of credentials: the files that one role needs; load, check and reload them.

======================  ==========================================  ==========================
file                    contents                                    roles that have it
======================  ==========================================  ==========================
``ca.crt``              certificates of the trusted CAs             every role
``tls.crt, tls.key``    certificate and key for connections         every role
``token``               the token that each call shows              every role
``trusted.keys``        public keys whose tokens count              dispatcher, worker
``definitions.key``     the key that seals definitions              dispatcher, worker
======================  ==========================================  ==========================
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.credentials.secret_file import read_public, read_secret
from penstock.credentials.token import TrustedKeys
from penstock.errors import ConfigError

log = logging.getLogger("penstock.credentials")

CA, TOKEN, CERTIFICATE, KEY = "ca.crt", "token", "tls.crt", "tls.key"
TRUSTED, DEFINITIONS = "trusted.keys", "definitions.key"

_OF_CLIENTS = (CA, TOKEN, CERTIFICATE, KEY)
_OF_SERVICES = (*_OF_CLIENTS, TRUSTED, DEFINITIONS)

LOOK = 1.0
"""Seconds between checks for changed files."""


class Tls(NamedTuple):
    """The trusted CAs, and a process's own key and certificate, all in PEM."""

    ca: bytes
    key: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client's credentials: *tls* for its connections, and the *token* that each call shows."""

    tls: Tls
    token: str


@dataclass(frozen=True, slots=True)
class ServiceCredentials:
    """A service's credentials: those of a client, and the keys that verify callers."""

    client: ClientCredentials
    trusted: bytes
    definitions: bytes


def folder_of(folder: str, role: str) -> Path:
    """Return the subfolder of *role* if *folder* has one; otherwise *folder* itself."""
    inside = Path(folder) / role
    return inside if inside.is_dir() else Path(folder)


def load_client(folder: Path) -> ClientCredentials:
    """Return the client's credentials in *folder*.

    Raises:
        ConfigError: when a file is missing, or other users can read a secret file.
    """
    _check_folder(folder, _OF_CLIENTS)
    token = read_secret(folder / TOKEN).decode("ascii", "replace").strip()
    key, certificate = read_secret(folder / KEY), _certificates(folder / CERTIFICATE)
    return ClientCredentials(Tls(_certificates(folder / CA), key, certificate), token)


def load_service(folder: Path) -> ServiceCredentials:
    """Return the service's credentials in *folder*.

    Raises:
        ConfigError: when a file is missing or malformed, other users can read a secret file, or the
            key does not belong to the certificate.
    """
    _check_folder(folder, _OF_SERVICES)
    definitions = read_secret(folder / DEFINITIONS)
    if len(definitions) < 32:
        raise ConfigError(f"{folder / DEFINITIONS} holds no key: it has less than 32 bytes")
    trusted = read_public(folder / TRUSTED)
    TrustedKeys.from_pem(trusted)
    client = load_client(folder)
    # A mere client checks this only when a connection fails: see `certificate.trouble`.
    if trouble := unfit_pair(client.tls):
        raise ConfigError(f"{folder}: {trouble}")
    return ServiceCredentials(client, trusted, definitions)


class WatchedFolder:
    """The current credentials in a folder, whose files may be replaced while processes run.

    If the files cannot be loaded, for example because only half of them have been replaced, the
    previous credentials stay in use. The log says so once, and the next check tries again.

    Args:
        folder: the folder with the files.
        load: loads the credentials from the folder.
        clock: returns seconds; decides when to check again.

    Raises:
        ConfigError: when *load* does.
    """

    def __init__(
        self,
        folder: Path,
        load: Callable[[Path], ClientCredentials] | Callable[[Path], ServiceCredentials],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self._load, self._clock = load, clock
        self._seen = _stamps(folder)
        self._current = load(folder)
        self._looked = clock()
        self._trouble = ""

    def current(self) -> ClientCredentials | ServiceCredentials:
        """Return the credentials, after a check for changed files if one is due."""
        if self._clock() - self._looked >= LOOK:
            self._looked = self._clock()
            self._look()
        return self._current

    def _look(self) -> None:
        stamps = _stamps(self.folder)
        if stamps == self._seen:
            return
        try:
            current = self._load(self.folder)
        except ConfigError as exc:
            if str(exc) != self._trouble:
                log.warning("%s; going on with the credentials from before", exc)
            self._trouble = str(exc)
            return
        if current != self._current:
            log.info("new credentials in %s are in use", self.folder)
        self._current, self._seen, self._trouble = current, stamps, ""


def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return values that change when a file of *folder* or its permissions change."""
    found = []
    for name in _OF_SERVICES:
        try:
            stat = (folder / name).stat()
        except OSError:
            continue
        found.append((name, stat.st_ctime_ns, stat.st_ino))
    return tuple(found)


def _check_folder(folder: Path, names: tuple[str, ...]) -> None:
    if not folder.is_dir():
        raise ConfigError(
            f"credentials: {folder} is no folder; `penstock keys init DIR` makes one for each role"
        )
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ConfigError(
            f"credentials: {folder} has no {', '.join(missing)}; give the folder of one role, as "
            "`penstock keys init DIR` makes DIR/dispatcher, DIR/worker and DIR/trainer "
            "(`penstock keys renew DIR` adds what older ones have not)"
        )


def _certificates(file: Path) -> bytes:
    data = read_public(file)
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise ConfigError(f"{file} holds no certificate in PEM")
    return data


def unfit_pair(tls: Tls) -> str:
    """Return why the certificate and key of *tls* do not fit; empty if they do."""
    # Only services import this package; a client starts sooner without it.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        mine = load_pem_private_key(tls.key, None).public_key()
        shown = x509.load_pem_x509_certificate(tls.certificate).public_key()
    except (ValueError, TypeError) as exc:
        return f"{CERTIFICATE} or {KEY} cannot be read: {exc}"
    if mine != shown:
        return f"{KEY} is not the key of {CERTIFICATE}; `penstock keys renew` makes both"
    return ""

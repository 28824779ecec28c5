"""Proofs between processes of one user on one host, for services that listen on loopback.

All of a user's processes find one key in a private folder, whose name has the user's number: a
caller knows a service's address, but not its `work_dir`. The key is never sent. A proof is
valid for one port and some minutes. If another user's process listens on that port, it learns
nothing that another service accepts.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from penstock.credentials.access import EVERY_ROLE, Identity
from penstock.credentials.secret_file import read_secret
from penstock.errors import ConfigError, Unauthenticated

SCHEME = "local1"

LASTS = 300.0
"""Seconds that a proof is valid."""

FILE = "local.key"

_LONGEST = 200


def is_loopback(host: str) -> bool:
    """Return whether *host* is only for this machine: ``localhost``, or a loopback address.

    >>> from penstock.credentials.local import is_loopback
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def user_folder() -> Path:
    """Return the folder that this user's processes share; make it if it does not exist.

    It depends only on the user, not on ``TMPDIR``, which launchers set for each job.

    Raises:
        ConfigError: when it belongs to another user, others may write to it, or this is Windows.
    """
    if not hasattr(os, "getuid"):
        raise ConfigError("this system has no numbers of users: services run on Linux")
    folder = Path("/tmp", f"penstock-{os.getuid()}")  # noqa: S108  it is checked
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be had: {exc.strerror}") from exc
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"{folder} is not this user's folder: have whoever made it remove it")
    if found.st_mode & 0o022:
        raise ConfigError(f"others may write to {folder}: `chmod 700 {folder}`")
    return folder


class LocalKey:
    """The key of this user's processes on this host.

    Args:
        folder: the folder of the key; the key is made if it does not exist.

    Raises:
        ConfigError: when others can read the key, or it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._key = _read(self._file) or _made(self._file)

    def keep(self) -> None:
        """Write the key again if its file was removed, as cleaners of ``/tmp`` do.

        If another process has written a new key since, use that.
        """
        self._key = _read(self._file) or _written(self._file, self._key)

    def proof(self, port: int, now: float) -> str:
        """Return the proof for the service on *port*, made at *now* (seconds of Unix time)."""
        return _proof(self._key, port, int(now + LASTS))

    def identity(self, proof: str, port: int, now: float) -> Identity:
        """Verify *proof*; return the identity of this user, who may do everything.

        Raises:
            Unauthenticated: when the proof is another user's, for another port, or old.
        """
        expires = proof[:_LONGEST].split(".")[1:2]
        number = int(expires[0]) if expires and expires[0].isdecimal() else 0
        good = hmac.compare_digest(proof.encode(), _proof(self._key, port, number).encode())
        if not good or not now <= number <= now + 2 * LASTS:
            raise Unauthenticated(self.refusal())
        return Identity(f"user {os.getuid()}", EVERY_ROLE, float(number))

    def refusal(self) -> str:
        """Return the message for a process without a proof."""
        return (
            f"this service is for processes of user {os.getuid()} on its own host, which know "
            f"{self._file}: call it as that user from there, by its own port, or give it "
            "credentials (penstock keys init)"
        )

    def secret(self, purpose: str) -> bytes:
        """Return 32 secret bytes derived from the key, different for each *purpose*."""
        return hmac.digest(self._key, b"for " + purpose.encode(), "sha256")


def _proof(key: bytes, port: int, expires: int) -> str:
    mac = hmac.new(key, f"{SCHEME}.{expires}.{port}".encode(), hashlib.sha256)
    return f"{SCHEME}.{expires}.{mac.hexdigest()}"


def _read(file: Path) -> bytes:
    """Return the key in *file*; empty if there is no file."""
    if not file.exists():
        return b""
    key = read_secret(file)
    if len(key) < 32:
        raise ConfigError(f"{file} holds no key: remove it, and start the services again")
    return key


def _made(file: Path) -> bytes:
    return _written(file, secrets.token_bytes(32))


def _written(file: Path, key: bytes) -> bytes:
    """Write *key* to *file* unless another process was faster; return the key in the file."""
    new = file.with_name(f".{secrets.token_hex(8)}")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(key)
        with suppress(FileExistsError):
            os.link(new, file)  # unlike a rename, it fails where there is one
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}") from exc
    finally:
        new.unlink(missing_ok=True)
    return _read(file)

"""Signatures of manifests, for those who share a key: a manifest begins with one.

The key is the content of the file that the variable `VARIABLE` names. Processes that have it write
signed manifests, and read no others. Processes without it read all manifests.
"""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from penstock.credentials.secret_file import read_secret
from penstock.errors import ConfigError, DatasetError

VARIABLE = "PENSTOCK_SAVES_KEY"

_BEFORE, _AFTER = b'{"signature":"', b'",'
_LEAST = 32
"""Bytes of a key."""


def _key() -> bytes:
    """Return the key of this process; empty if it has none.

    Raises:
        ConfigError: when the file cannot be read, others may read it, or it is too short.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return b""
    key = read_secret(Path(path))
    if len(key) < _LEAST:
        raise ConfigError(
            f"{VARIABLE}: {path} has {len(key)} bytes, and a key has at least {_LEAST}: make one "
            f"with `head -c {_LEAST} /dev/urandom`"
        )
    return key


def signed(manifest: bytes) -> bytes:
    """Return *manifest*, a JSON object, with a signature in front if this process has a key."""
    key = _key()
    if not key:
        return manifest
    return _BEFORE + _made(key, manifest) + _AFTER + manifest.removeprefix(b"{")


def check_signature(where: str, manifest: bytes) -> None:
    """Check the signature of a manifest that was read from the file *where*.

    Raises:
        DatasetError: when this process has a key, and the manifest was not signed with it.
    """
    key = _key()
    if not key:
        return
    found, after, rest = manifest.removeprefix(_BEFORE).partition(_AFTER)
    is_signed = manifest.startswith(_BEFORE) and bool(after)
    if is_signed and hmac.compare_digest(found, _made(key, b"{" + rest)):
        return
    why = f"has another signature than the key in {VARIABLE} makes" if is_signed else "is unsigned"
    raise DatasetError(
        f"{where} {why}: someone without this key wrote or changed it. Save the dataset again with "
        "the key, or give the key that it was saved with"
    )


def _made(key: bytes, manifest: bytes) -> bytes:
    return hmac.digest(key, manifest, "sha256").hex().encode()

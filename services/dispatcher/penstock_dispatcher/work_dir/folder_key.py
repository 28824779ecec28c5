"""The key of a `work_dir`: stored data is checked with it, and nobody else can read it.

It is no credential. It stays the same while signing keys and certificates change, because it also
checks data that was written years ago.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from penstock.credentials.secret_file import read_secret
from penstock.errors import ConfigError
from penstock_dispatcher.work_dir.atomic_file import remove_unfinished, unwritten, write_whole

KEY = "work_dir.key"
"""The file in a work_dir that holds it."""

_LENGTH = 32

EXPOSED = (
    "if one of them may have written to the folder, delete that to begin again: anyone with "
    "the key can change the folder unseen"
)


def own_key(work_dir: Path) -> bytes:
    """Return the key in *work_dir*, which nobody but this user can read; make it if need be.

    Raises:
        ConfigError: when others can read it, or it is no key.
        StoreFull: when there is no room to make it.
    """
    file = work_dir / KEY
    remove_unfinished(file)
    if not file.exists():
        try:
            work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"work_dir: {work_dir} cannot be used: {exc.strerror}") from exc
        try:  # It outlasts a loss of power always: without it a journal that does is of no use.
            write_whole(file, (secrets.token_bytes(_LENGTH),), power=True)
        except OSError as exc:
            raise unwritten(file, exc, "start again") from exc
    return kept_key(work_dir)


def kept_key(work_dir: Path) -> bytes:
    """Return the key in *work_dir*, which was made before.

    Raises:
        ConfigError: when it is not there, others can read it, or it is no key.
    """
    file = work_dir / KEY
    key = read_secret(file, EXPOSED)
    if len(key) != _LENGTH:
        raise ConfigError(
            f"{file} has {len(key)} bytes, and a key has {_LENGTH}: restore it from a copy of the "
            "folder, or delete the folder to begin again"
        )
    return key

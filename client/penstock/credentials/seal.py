"""Seals of definitions: how a worker knows that its dispatcher was given one by a trainer."""

from __future__ import annotations

import hmac
import struct

from penstock.errors import TamperedDefinition

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

"""Chunks of consecutive elements: written in a format that others read, each piece with a checksum.

A chunk has record batches of about 1 MiB. Where they begin depends on the elements alone, so the
same elements make the same bytes.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import msgspec

GROUP_BYTES, GROUP_COUNT = 1 << 20, 1 << 16
"""About how many bytes, and at most how many elements, are read together."""


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive elements of a chunk that are read together.

    One without elements, at the end, is what a format needs to read the others.
    """

    count: int
    start: int
    nbytes: int
    crc32c: int
    """Of these bytes."""


class ChunkContents(msgspec.Struct, frozen=True):
    """What a chunk's file has."""

    count: int
    """How many elements."""
    nbytes: int
    crc32c: int
    """Of the whole file."""
    groups: tuple[Group, ...]


def checksum(data: Any) -> int:
    """Return the CRC-32C of *data*: `bytes`, a buffer of pyarrow, or an array of bytes."""
    return int(google_crc32c.value(data))

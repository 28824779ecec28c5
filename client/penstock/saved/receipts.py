"""Receipts: what a worker says of elements that it has written; see `penstock.ops.write_chunks`."""

from __future__ import annotations

import msgspec

from penstock.saved.chunks import ChunkContents
from penstock.saved.manifest import NEW


class ChunkTold(msgspec.Struct, frozen=True):
    """What the last receipt of a chunk tells."""

    layout: str
    contents: ChunkContents


def new_name(chunk: int) -> str:
    """Return the name of the file of a new chunk."""
    return f"{NEW}/{chunk:016x}"


def told_name(chunk: int) -> str:
    """Return the name of the file that has the `ChunkTold` of a new chunk.

    If receipts are lost, whoever cuts the chunk needs it.
    """
    return f"{new_name(chunk)}.json"

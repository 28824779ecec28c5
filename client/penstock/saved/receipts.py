"""Receipts: what a worker says of elements that it has written; see `penstock.ops.write_chunks`."""

from __future__ import annotations

import secrets

import msgspec

from penstock.saved.chunks import ChunkContents

NEW = "_penstock/new"
"""The folder of the files that workers write."""


class ChunkTold(msgspec.Struct, frozen=True):
    """What the last receipt of a new chunk tells."""

    layout: str
    contents: ChunkContents
    nbytes: int
    """About how many bytes the elements take, with those before them that belong to one chunk."""
    ends: bool
    """Whether a chunk ends here, as it is full or its split ends. Else only time was up."""


def new_chunk(*, begins_split: bool) -> int:
    """Return a random number for a new chunk; it tells whether a split begins with it."""
    return secrets.randbits(62) << 1 | begins_split


def begins_split(chunk: int) -> bool:
    """Return whether a split begins with the new chunk of this number."""
    return bool(chunk & 1)


def new_name(chunk: int) -> str:
    """Return the name of the file of a new chunk."""
    return f"{NEW}/{chunk:016x}"


def told_name(chunk: int) -> str:
    """Return the name of the file that has the `ChunkTold` of a new chunk.

    If receipts are lost, whoever cuts the chunk needs it.
    """
    return f"{new_name(chunk)}.json"

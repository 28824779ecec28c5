"""The files that a pipeline read when its elements were saved, in a few words for a manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from penstock import files
from penstock.errors import PenstockError
from penstock.file_parts import WHOLE, FilePart
from penstock.protocol.splits import FilePattern

_MOST_NAMED = 3


class SourceFiles(msgspec.Struct, frozen=True):
    """The files of one source. Many files take no more room in a manifest than few."""

    source: str
    """The operator."""
    count: int
    nbytes: int
    """Of all files whose size is known."""
    digest: str
    """Of the names and versions of all files; a version is a size with a time or an entity tag."""
    first: tuple[str, ...]
    """The names of the first files."""


def inputs_of(sources: Iterable[tuple[str, Any]]) -> tuple[SourceFiles, ...]:
    """Return the files of *sources*: of each its operator, and its units.

    A source without files is left out, and one whose files this process cannot list: perhaps only
    workers reach them.
    """
    found = []
    for op, units in sources:
        if not isinstance(units, FilePattern):
            continue
        with suppress(PenstockError, OSError, ImportError):
            names = files.listing(op, replace(units, part_bytes=WHOLE))
            found.append(_told(op, units.cut(names)))
    return tuple(found)


def _told(op: str, names: tuple[str, ...]) -> SourceFiles:
    parts = list(map(FilePart.of, names))
    text = "\0".join(names).encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    first = tuple(part.name for part in parts[:_MOST_NAMED])
    return SourceFiles(op, len(parts), sum(part.size for part in parts), digest, first)

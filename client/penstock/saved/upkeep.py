"""Looks after saved datasets: what crashes left in a folder, and which chunks are damaged."""

from __future__ import annotations

from collections.abc import Iterator

import google_crc32c

from penstock import stored_file
from penstock.saved.folder import SaveFolder
from penstock.saved.manifest import DATA, FOLDER, NEW, SavedVersion

_AT_ONCE = 1 << 20


def leftovers(folder: SaveFolder, version: SavedVersion) -> list[str]:
    """Return the names of files in *folder* that belong to no chunk of *version*.

    If a save still runs, it may need them.
    """
    chunks = set(version.names)
    found = [f"{under}/{name}" for under in (NEW, DATA) for name in folder.names(under)]
    found += [f"{FOLDER}/{name}" for name in folder.names(FOLDER) if name.startswith(".")]
    return [name for name in found if name not in chunks]


def lost(folder: SaveFolder, version: SavedVersion) -> list[str]:
    """Return the names of chunks of *version* that are not in *folder*."""
    there = {f"{DATA}/{name}" for name in folder.names(DATA)}
    return [name for name in version.names if name not in there]


def damage(folder: SaveFolder, version: SavedVersion) -> Iterator[str]:
    """Yield a sentence for each chunk of *version* whose file is not as it was written."""
    for name, contents in zip(map(folder.file, version.names), version.chunks, strict=True):
        try:
            with stored_file.open_file(name, _AT_ONCE) as file:
                nbytes, crc = 0, 0
                while data := file.read(_AT_ONCE):
                    nbytes, crc = nbytes + len(data), int(google_crc32c.extend(crc, data))
        except OSError as exc:
            yield f"{name} cannot be read: {exc}"
            continue
        if nbytes != contents.nbytes:
            yield f"{name} has {nbytes:,} bytes instead of {contents.nbytes:,}"
        elif crc != contents.crc32c:
            yield f"{name} is damaged: its checksum is not that of the manifest"

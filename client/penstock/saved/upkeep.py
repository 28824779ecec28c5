"""Looks after saved datasets: what crashes left in a folder, and which chunks are damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import google_crc32c
import msgspec

from penstock import stored_file
from penstock.errors import MissingFile
from penstock.protocol.recording import SaveStage
from penstock.saved.folder import SaveFolder, folder_of
from penstock.saved.manifest import (
    DATA,
    FOLDER,
    SavedVersion,
    SavedVersions,
    version_number,
)
from penstock.saved.receipts import NEW

_AT_ONCE = 1 << 20

GRACE = 3600.0
"""For how many seconds the chunks of a dataset stay that another one replaced."""


def leftovers(folder: SaveFolder, version: SavedVersion) -> list[str]:
    """Return the names of files in *folder* that neither *version* nor its readers need.

    *version* is the newest one, and no save runs: if one begins meanwhile, there are none. Readers
    of a dataset that was replaced may need its chunks for another hour. The chunks come before the
    manifests that name them, so that after a crash, the next call finds the rest.
    """
    versions, needed, old = SavedVersions("saves", folder), set(version.names), 0
    if version.manifest.stage is SaveStage.COMPLETE:
        needed.add(f"{DATA}/{version.manifest.options.chunk_format.index_name}")
    for replaced, until in _replaced(versions, version):
        if time.time() < until:
            needed.update(replaced.names)
        else:
            old = max(old, replaced.manifest.version)
    found = [f"{under}/{name}" for under in (NEW, DATA) for name in folder.names(under)]
    found += [f"{FOLDER}/{name}" for name in folder.names(FOLDER) if _is_old(name, old)]
    if versions.latest(version) is not version:
        return []  # a save began, and these may be its files
    return [name for name in found if name not in needed]


def _is_old(name: str, old: int) -> bool:
    """Return whether a file beside manifests is of no use, if versions up to *old* are of none."""
    return name.startswith(".") or 0 < version_number(name) <= old


def _replaced(
    versions: SavedVersions, version: SavedVersion
) -> Iterator[tuple[SavedVersion, float]]:
    """Yield the versions that later datasets replaced, and until when readers may need them."""
    until = 0.0
    while True:
        now = version.manifest
        if now.stage in {SaveStage.COMPLETE, SaveStage.REMOVED}:
            until = now.written + GRACE
        if not now.replaces:
            return
        try:
            version = versions.read(now.replaces)
        except MissingFile:  # an earlier call deleted it
            return
        yield version, until


def datasets_below(path: str, depth: int = 3) -> Iterator[tuple[SaveFolder, SavedVersion]]:
    """Yield the saved datasets in *path* and in folders up to *depth* below, with their newest."""
    folder = folder_of("saves", path)
    with folder.reading("saves", ""):
        names = folder.entries()
    if FOLDER in names:
        if newest := SavedVersions("saves", folder).latest():
            yield folder, newest
    elif depth:
        for name in sorted(names):
            yield from datasets_below(folder.file(name), depth - 1)


def too_many(
    found: Sequence[SavedVersion], keep_seconds: float | None, max_bytes: int | None
) -> list[int]:
    """Return the numbers of those caches in *found* that go beyond the bounds, oldest first.

    A dataset of `Dataset.save` is never among them: perhaps nothing can make it again.
    """
    caches = [
        (one.manifest.written, number)
        for number, one in enumerate(found)
        if one.manifest.is_cache and one.manifest.stage is not SaveStage.REMOVED
    ]
    total = sum(found[number].manifest.nbytes for _, number in caches)
    now, numbers = time.time(), []
    for written, number in sorted(caches):
        is_late = keep_seconds is not None and now - written > keep_seconds
        if is_late or (max_bytes is not None and total > max_bytes):
            numbers.append(number)
            total -= found[number].manifest.nbytes
    return numbers


def remove(folder: SaveFolder, version: SavedVersion) -> SavedVersion | None:
    """Commit a version without elements after *version*; None if another process was faster.

    From then on the dataset counts as missing. `leftovers` names its chunks an hour later.
    """
    gone = msgspec.structs.replace(
        version.manifest,
        stage=SaveStage.REMOVED,
        base=0,
        before=0,
        chunks=(),
        pieces=(),
        elements=0,
        nbytes=0,
        error="",
        position=None,
    )
    following = version.replaced_by(gone)
    return following if SavedVersions("saves", folder).commit(following) else None


def lost(folder: SaveFolder, version: SavedVersion) -> list[str]:
    """Return the names of chunks of *version* that are not in *folder*."""
    there = {f"{under}/{name}" for under in (NEW, DATA) for name in folder.names(under)}
    missing = [name for name in version.names if name not in there]
    return [name for name in missing if folder.read(name) is None]  # a listing may lag behind


def damage(folder: SaveFolder, version: SavedVersion) -> Iterator[tuple[int, str]]:
    """Yield the number of each chunk whose file is not as it was written, and what is wrong."""
    names = map(folder.file, version.names)
    for number, (name, contents) in enumerate(zip(names, version.contents, strict=True)):
        try:
            with stored_file.open_file(name, _AT_ONCE) as file:
                nbytes, crc = 0, 0
                while data := file.read(_AT_ONCE):
                    nbytes, crc = nbytes + len(data), int(google_crc32c.extend(crc, data))
        except OSError as exc:
            yield number, f"{name} cannot be read: {exc}"
            continue
        if nbytes != contents.nbytes:
            yield number, f"{name} has {nbytes:,} bytes instead of {contents.nbytes:,}"
        elif crc != contents.crc32c:
            yield number, f"{name} is damaged: its checksum is not that of the manifest"

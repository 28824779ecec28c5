"""Manifests: which chunks a version of a saved dataset has, and where saving goes on.

    _penstock/v00000007.json    the manifest of version 7, written once
    _penstock/new/…             files of workers: pieces of chunks that are not finished
    data/00000000-5d0c61b3.arrow, …   the chunks, in the order of their elements

A manifest has the chunks that its version adds to the version *base*, so that long saves do not
write the whole list each time. Elements after its last chunk are in pieces, which the chunks of a
later version replace.

The name of a chunk has its number and its checksum. So two processes that write the same number
replace nothing of each other, and an overwritten dataset can be read until the new one is complete.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec

from penstock.errors import DatasetError, MissingFile, VersionMismatch
from penstock.protocol.definition import PipelineOutline
from penstock.protocol.recording import SaveStage
from penstock.saved.chunk_format import ChunkFormat
from penstock.saved.chunks import ChunkContents
from penstock.saved.folder import SaveFolder
from penstock.saved.formats import FORMATS
from penstock.saved.inputs import SourceFiles
from penstock.saved.pieces import Piece
from penstock.saved.signature import check_signature, signed

FOLDER, DATA = "_penstock", "data"

_FORMAT = 1
"""The version of manifests that this code writes."""

_WHOLE_EACH = 64
"""So many versions apart are manifests that have all chunks."""


class SaveOptions(msgspec.Struct, frozen=True):
    """How elements are written."""

    format: str
    compression: str | None
    chunk_bytes: int
    order: str = "split"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"this Penstock knows no format {self.format!r}: upgrade it")

    @property
    def chunk_format(self) -> ChunkFormat:
        """The format that writes and reads the chunks."""
        return FORMATS[self.format]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a saved dataset."""

    penstock: int = _FORMAT
    version: int
    save_id: str
    """Random; the same in all versions of one save, another one after an overwrite."""
    written: float = 0.0
    """When this version was written, in seconds since 1970."""
    replaces: int = 0
    """The last version of the dataset that this one replaces; 0: there was none."""
    is_cache: bool = False
    """Whether the pipeline that reads it makes it again, so that `penstock saves gc` may remove
    it."""
    base: int = 0
    """The version that has all chunks before those of this manifest; 0: there are none."""
    stage: SaveStage = SaveStage.OPEN
    outline: PipelineOutline
    """Of the pipeline that makes the elements."""
    inputs: tuple[SourceFiles, ...] = ()
    """The files of its sources when the save began."""
    options: SaveOptions
    layout: str = ""
    """See `SavedLayout.to_text`; empty while there are no elements."""
    before: int = 0
    """How many chunks the version *base* has."""
    chunks: tuple[ChunkContents, ...] = ()
    """Those that follow."""
    pieces: tuple[Piece, ...] = ()
    """The files of the elements after the last chunk."""
    elements: int = 0
    """In all chunks and pieces, also those before."""
    nbytes: int = 0
    """Of all these files."""
    error: str = ""
    position: Any = None
    """Where saving goes on, until it is complete; see `penstock.saved.recording`."""

    @property
    def name(self) -> str:
        """The name of this manifest in its folder."""
        return manifest_name(self.version)


def manifest_name(version: int) -> str:
    """Return the name of the manifest of *version*."""
    return f"{FOLDER}/v{version:08}.json"


def chunk_name(number: int, contents: ChunkContents, suffix: str) -> str:
    """Return the name of chunk *number*, which has *contents*."""
    return f"{DATA}/{number:08}-{contents.crc32c:08x}.{suffix}"


class SavedVersion(msgspec.Struct, frozen=True):
    """A manifest with all chunks of its version."""

    manifest: Manifest
    chunks: tuple[ChunkContents, ...]
    """Those that are finished."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files of all elements: of chunks, then of pieces."""
        return tuple(map(self.name, range(len(self.contents))))

    @property
    def contents(self) -> tuple[ChunkContents, ...]:
        """What each of these files has."""
        return (*self.chunks, *(piece.contents for piece in self.manifest.pieces))

    def name(self, number: int) -> str:
        """Return the name of file *number* of these."""
        if number >= len(self.chunks):
            return self.manifest.pieces[number - len(self.chunks)].name
        return chunk_name(number, self.chunks[number], self.manifest.options.chunk_format.suffix)

    def following(self, chunks: tuple[ChunkContents, ...], **changes: Any) -> SavedVersion:
        """Return the next version, which adds *chunks* and changes other fields."""
        now = self.manifest
        version = now.version + 1
        every = (*self.chunks, *chunks)
        is_whole = version % _WHOLE_EACH == 0 or changes.get("stage", now.stage) != SaveStage.OPEN
        old = [piece.contents for piece in now.pieces]
        added = [*chunks, *(piece.contents for piece in changes.get("pieces", now.pieces))]
        manifest = msgspec.structs.replace(
            now,
            version=version,
            base=0 if is_whole else now.version,
            before=0 if is_whole else len(self.chunks),
            chunks=every if is_whole else chunks,
            elements=now.elements + sum(one.count for one in added) - sum(one.count for one in old),
            nbytes=now.nbytes + sum(one.nbytes for one in added) - sum(one.nbytes for one in old),
            written=time.time(),
            **changes,
        )
        return SavedVersion(manifest, every)

    def replaced_by(self, manifest: Manifest) -> SavedVersion:
        """Return the next version, which has *manifest* and no elements yet."""
        number = self.manifest.version
        fields = {"version": number + 1, "replaces": number, "save_id": secrets.token_hex(8)}
        return SavedVersion(msgspec.structs.replace(manifest, written=time.time(), **fields), ())


class SavedVersions:
    """The versions of the saved dataset in *folder*."""

    def __init__(self, op: str, folder: SaveFolder) -> None:
        self._op, self._folder = op, folder

    def latest(self, known: SavedVersion | None = None) -> SavedVersion | None:
        """Return the newest version, which is at least *known*; None if there is none."""
        numbers = [] if known else list(map(version_number, self._names()))
        newest = known or (self.read(max(numbers)) if any(numbers) else None)
        # A listing may lag behind, so the next names are tried.
        for number in count(newest.manifest.version + 1 if newest else 1):
            found = self._manifest(number)
            if found is None:
                return newest
            newest = self._whole(found, newest)
        raise AssertionError("numbers do not end")

    def read(self, version: int) -> SavedVersion:
        """Return *version*.

        Raises:
            MissingFile: when there is no such version.
            DatasetError: when its manifest is malformed.
            VersionMismatch: when a newer Penstock wrote it.
        """
        found = self._manifest(version)
        if found is None:
            raise MissingFile(
                f"{self._op}: {self._folder.path} has no version {version}: leave out at= for the "
                "newest one"
            )
        return self._whole(found, None)

    def commit(self, version: SavedVersion) -> bool:
        """Write the manifest of *version*; return whether there was none of that number.

        Raises:
            DatasetError: when it cannot be written.
        """
        manifest = version.manifest
        with self._folder.writing(manifest.name):
            return self._folder.create(manifest.name, signed(msgspec.json.encode(manifest)))

    def _whole(self, manifest: Manifest, before: SavedVersion | None) -> SavedVersion:
        if not manifest.base:
            return SavedVersion(manifest, manifest.chunks)
        if before is None or before.manifest.version != manifest.base:
            before = self.read(manifest.base)
        if before.manifest.save_id != manifest.save_id:
            raise MissingFile(
                f"{self._op}: {self._folder.path} has lost version {manifest.base} of its newest "
                "dataset: someone deleted files; delete the folder"
            )
        return SavedVersion(manifest, (*before.chunks, *manifest.chunks))

    def _names(self) -> list[str]:
        with self._folder.reading(self._op, FOLDER):
            return self._folder.names(FOLDER)

    def _manifest(self, version: int) -> Manifest | None:
        name = manifest_name(version)
        where = self._folder.file(name)
        with self._folder.reading(self._op, name):
            text = self._folder.read(name)
        if text is None:
            return None
        check_signature(f"{self._op}: {where}", text)
        try:
            plain = msgspec.json.decode(text)
            written = plain.get("penstock") if isinstance(plain, Mapping) else None
            if isinstance(written, int) and written > _FORMAT:
                raise VersionMismatch(
                    f"{self._op}: {where} has the format {written}, and this Penstock reads up to "
                    f"{_FORMAT}: upgrade it"
                )
            found = msgspec.convert(plain, Manifest)
        except msgspec.MsgspecError as exc:
            raise DatasetError(f"{self._op}: {where} is no manifest: {exc}") from exc
        if found.version != version:
            raise DatasetError(f"{self._op}: {where} has the manifest of version {found.version}")
        return found


def version_number(name: str) -> int:
    """Return the version that a file's name tells; 0 if it tells none."""
    text = name.removeprefix("v").removesuffix(".json")
    return int(text) if text.isdigit() and name == f"v{text}.json" else 0

"""Reads the chunks of a saved dataset, group by group; each group's checksum is compared.

A process compares the groups of a version of a local file once, and those of a remote file each
time that they are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from penstock import stored_file
from penstock.engine.rows import Block
from penstock.errors import FileChanged
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.saved.chunks import ChunkContents, Group, checksum
from penstock.saved.folder import folder_of
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import SavedVersion, SavedVersions
from penstock.storage.counts import count
from penstock.stored_file import CHUNK


@lru_cache(maxsize=16)
def version_of(path: str, version: int, save_id: str) -> SavedVersion:
    """Return the *version* of the save *save_id* to *path*. It does not change.

    Raises:
        FileChanged: when another save wrote this version.
    """
    found = SavedVersions("load", folder_of("load", path)).read(version)
    if found.manifest.save_id != save_id:
        raise replaced(path)
    return found


def check_same(path: str, save_id: str) -> None:
    """Check that the newest version at *path* is of the save *save_id*.

    Raises:
        FileChanged: when another dataset replaced it, or it was removed.
    """
    newest = SavedVersions("load", folder_of("load", path)).latest()
    if newest is not None and newest.manifest.save_id != save_id:
        raise replaced(path)


def replaced(path: str) -> FileChanged:
    """Return the error of a reader of another save than *path* has now."""
    return FileChanged(
        f"load: {path} has another dataset than when reading began: a run must not mix both. Begin "
        "a new run"
    )


_MOST_KNOWN = 1 << 14

_compared: dict[tuple[str, str], set[int]] = {}
"""The groups that were compared, by file and version."""


class DamagedError(ValueError):
    """A group of a chunk has other bytes than were written."""


class ChunkFile:
    """An open chunk of *version* that has *contents*.

    If its file is damaged, *remake* returns the bytes that it should have.
    """

    def __init__(
        self,
        part: FilePart,
        contents: ChunkContents,
        version: SavedVersion,
        remake: Callable[[], Any] | None = None,
    ) -> None:
        self._pa = needed("pyarrow", "Dataset.load")
        self._part, self._groups, self._remake = part, contents.groups, remake
        self._known = _known(part)
        self._file = self._opened()
        if part.stop is not None and part.size != contents.nbytes:
            self._replace(f"the file has {part.size:,} bytes instead of {contents.nbytes:,}")
        layout = SavedLayout.from_text(version.manifest.layout)
        about = (
            self._bytes(self._groups[-1]) if self._groups and not self._groups[-1].count else b""
        )
        self._decoder = version.manifest.options.chunk_format.decoder(layout, about)

    def _opened(self) -> Any:
        if not stored_file.is_url(self._part.name):
            stored_file.check_version("load", self._part)
            return self._pa.memory_map(self._part.name)
        file = stored_file.open_part("load", self._part, CHUNK, in_order=self._part.in_order)
        return self._pa.PythonFile(file, mode="r")

    def table(self, number: int) -> Any:
        """Return group *number* as a table.

        Raises:
            DamagedError: when its bytes are not those that were written, also when read again.
        """
        group = self._groups[number]
        return self._decoder.table(self._bytes(group), group)

    def _bytes(self, group: Group) -> Any:
        if (data := self._read(group)) is None:
            self._file.close()
            self._file = self._opened()
            data = self._read(group)
        if data is None:
            self._replace(
                f"bytes {group.start:,} to {group.start + group.nbytes:,} are damaged: their "
                "checksum is not that of the manifest"
            )
            data = self._read(group)
        return data

    def _replace(self, why: str) -> None:
        """Continue with bytes that are made again.

        Raises:
            DamagedError: saying *why*, when nothing can make them again.
        """
        count(damaged=1)
        self._file.close()
        if self._remake is None:
            raise DamagedError(
                f"{why}; give load repair= the pipeline that made it, or save the dataset again "
                "with overwrite=True"
            )
        try:
            self._file = self._pa.BufferReader(self._remake())
        except DamagedError as exc:
            raise DamagedError(f"{why}, and {exc}; save it again with overwrite=True") from exc
        self._known = set()  # what was compared there was the file

    def _read(self, group: Group) -> Any:
        """Return the bytes of *group*; None if their checksum is not that of the manifest."""
        self._file.seek(group.start)
        data = self._file.read_buffer(group.nbytes)
        if group.start in self._known:
            return data
        if checksum(data) != group.crc32c:
            return None
        self._known.add(group.start)
        return data

    def block(self, number: int) -> Block:
        """Return the elements of group *number*."""
        return self._decoder.block(self.table(number))

    def picked(self, table: Any, rows: Sequence[int]) -> Block:
        """Return the elements that are *rows* of a group's *table*."""
        return self._decoder.picked(table, rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _known(part: FilePart) -> set[int]:
    """Return where the groups of the file of *part* begin that were compared; more can be added."""
    if stored_file.is_url(part.name) or not part.version:
        return set()
    if len(_compared) >= _MOST_KNOWN:
        _compared.clear()
    return _compared.setdefault((part.name, part.version), set())

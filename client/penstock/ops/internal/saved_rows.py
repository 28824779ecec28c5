"""Reads the elements of a version of a saved dataset from any number on."""

from __future__ import annotations

from itertools import accumulate

from penstock.engine.rows import Block
from penstock.file_parts import FilePart
from penstock.ops.load import ChunkReader
from penstock.runtime.interrupts import interruptible
from penstock.saved.chunk_reader import ChunkFile
from penstock.saved.folder import SaveFolder
from penstock.saved.manifest import SavedVersion


class SavedRows:
    """The elements of *version* from *number* on."""

    def __init__(self, folder: SaveFolder, version: SavedVersion, number: int) -> None:
        self.version = version
        self._names = list(map(folder.file, version.names))
        self._reader: ChunkReader | None = None
        ends = list(accumulate(chunk.count for chunk in version.chunks))
        self._chunk = next((i for i, end in enumerate(ends) if number < end), len(ends))
        self._row = number - (ends[self._chunk - 1] if self._chunk else 0)
        """Where it begins in the chunk that is opened next."""

    def rows(self, n: int) -> Block:
        """Return the next 1 to *n* elements; none at the end.

        Raises:
            Exception: when a chunk cannot be read.
        """
        while self._chunk < len(self._names):
            if self._reader is None:
                self._reader = interruptible(self._opened)
            block: Block = interruptible(self._reader.rows, n)
            if len(block):
                return block
            self.close()
            self._chunk, self._row = self._chunk + 1, 0
        return []

    def close(self) -> None:
        """Close the open chunk."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _opened(self) -> ChunkReader:
        contents = self.version.chunks[self._chunk]
        group, row = 0, self._row
        while group < len(contents.groups) and row >= contents.groups[group].count:
            row -= contents.groups[group].count
            group += 1
        part = FilePart(self._names[self._chunk])
        file = ChunkFile(part, contents, self.version)
        return ChunkReader(file, part, contents, (group, row))

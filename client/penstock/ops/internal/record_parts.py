"""Records of a part of a file, one after another: lines, rows and records of binary formats.

A place is the byte at which a record begins, and the record's number in the part. Bytes are those
of the file; of a compressed file, those of its content. A file of several Zstandard frames is
divided by its frames, for readers that allow it: bytes are counted from the part's first frame.
Nobody can read another compressed file from its middle, so its first part has all records, and the
others have none.
"""

from __future__ import annotations

import io
import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar

from penstock import stored_file
from penstock.element import Element
from penstock.engine.rows import Block
from penstock.file_parts import FilePart
from penstock.ops.internal.compressed import content_end, decompressed, is_zstd
from penstock.ops.internal.file_parts import START, PartReader, Place
from penstock.ops.internal.zstd_frames import first_frame, is_divisible
from penstock.runtime.interrupts import is_interrupt
from penstock.stored_file import CHUNK

log = logging.getLogger("penstock.files")


class RecordReader(PartReader):
    """The records of *part*. A subclass says what a record is."""

    what: ClassVar[str] = "record"
    first: ClassVar[int] = 0
    """The number of the first record of a part, in errors."""

    by_frames: bool = False
    """Whether records are found from the start of any frame, and end after `end` of the part."""

    def __init__(self, op: str, part: FilePart, place: Place, compression: str) -> None:
        self.part = part
        self._op, self._compression = op, compression
        self._is_undivided = False
        self.byte, self._number = place
        self._due: Exception | None = None
        """The error to raise after the records that were read."""
        self._last: list[int] = []
        """How many bytes each record of the last block has."""
        raw = stored_file.open_part(op, part, CHUNK)
        try:
            self.is_over = self.is_packed = False
            """Whether the part has no more records, and whether the file is compressed."""
            self.stop: int | None
            """Where the part ends; None is the end of the file."""
            self.file: BinaryIO
            if self.by_frames and part.is_piece and is_zstd(raw) and is_divisible(part):
                self._open_frames(raw)
            else:
                self._open_whole(raw, compression)
            if not self.is_over:
                self.begin() if place == START else self.resume()
        except BaseException:
            raw.close()
            raise

    def _open_frames(self, raw: io.BufferedReader[Any]) -> None:
        first = first_frame(self.part)
        self.is_over, self.is_packed, self.stop, self.file = first is None, True, None, raw
        if first is not None:
            raw.seek(first)
            stop = self.part.stop if self.part.stop != self.part.size else None
            self.file = decompressed(raw, "ZSTD", stop and stop - first)

    def _open_whole(self, raw: io.BufferedReader[Any], compression: str) -> None:
        part = self.part
        self.file = decompressed(raw, self.compression(raw, compression))
        self.is_packed = self.file is not raw
        self.is_over = self.is_packed and part.start > 0
        self._is_undivided = self.is_packed
        if self.is_packed and not part.start:
            stored_file.read_to_end(raw)
        self.stop = None if self.is_packed or part.stop == part.size else part.stop
        if self.is_packed and part.is_piece and not part.start:
            log.warning(
                "%s is one compressed stream, so one worker reads all of it. To share it, compress "
                "it in frames, by pzstd or in the seekable format of zstd, or write more files.",
                part.name,
            )

    @property
    def end(self) -> int | None:
        """The byte where the part ends, as far as it is known; None is the end of the file."""
        return content_end(self.file) if self.stop is None else self.stop

    def compression(self, raw: io.BufferedReader[Any], given: str) -> str:  # noqa: ARG002
        """Return how *raw* is compressed, of which the user said *given*."""
        return given

    @abstractmethod
    def begin(self) -> None:
        """Move `file` and `byte`, which are at 0, to the first record of the part."""

    def resume(self) -> None:
        """Move `file` to `byte`, where a record begins."""
        if self.byte:  # a pipe cannot seek
            self.file.seek(self.byte)

    @abstractmethod
    def read(self, n: int, out: list[Element], sizes: list[int]) -> None:
        """Append up to *n* elements to *out*, and how many bytes each takes to *sizes*.

        It appends none at the end of the part. If it raises, the elements appended before count.
        """

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        self._last = []
        if self._due is not None:
            raise self._due
        out: list[Element] = []
        sizes: list[int] = []
        if not self.is_over:
            try:
                self.read(n, out, sizes)
            except Exception as exc:
                if not out or is_interrupt(exc):
                    raise
                self._due = exc
        self._last = sizes
        self.byte += sum(sizes)
        self._number += len(out)
        return out

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        self.byte, self._number = place
        self._due = None
        if self.is_packed and self.byte < self.file.tell():
            self.file.close()
            raw = stored_file.open_part(self._op, self.part, CHUNK)
            self.file = decompressed(raw, self.compression(raw, self._compression))
        self.file.seek(self.byte)

    def is_before(self, following: FilePart) -> bool:
        """See `PartReader.is_before`."""
        return not self._is_undivided or following.name != self.part.name

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        byte, number, last = self.byte, self._number, self._last
        return lambda back: (byte - sum(last[len(last) - back :]), number - back)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        since = " from the start of its part" if self.part.start else ""
        return f"{self.what} {self._number + self.first}{since}, at byte {self.byte}"

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self.byte, self._number, self._due = self.byte + size, self._number + 1, None

    def close(self) -> None:
        """See `PartReader.close`."""
        self.file.close()

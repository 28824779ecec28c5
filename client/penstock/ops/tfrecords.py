"""`tfrecords`: the records of TFRecord files, whose checksums are checked.

A record is its length (8 bytes, little-endian), the masked CRC-32C of that, the data, and the
masked CRC-32C of the data; https://www.tensorflow.org/tutorials/load_data/tfrecord has the format.
State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock import files, stored_file
from penstock.element import Element
from penstock.file_parts import FilePart
from penstock.ops.internal.compressed import GUESSED, compression_of
from penstock.ops.internal.file_parts import (
    BadRecordError,
    NamedFiles,
    PartReader,
    Place,
    RefusalError,
)
from penstock.ops.internal.record_parts import RecordReader
from penstock.ops.internal.record_starts import LONGEST, find_start, record_length
from penstock.saved.tfrecord_file import HEAD, TAIL, masked

_HEADERS = 1 << 13
"""Bytes read at a time to find headers, which may lie far apart."""

PIECE = 1 << 24
"""Bytes of a record that are read at a time: a length that was made up takes no memory."""


@dataclass(frozen=True, eq=False)
class TFRecords(NamedFiles):
    """The records of *files*, as `bytes`, file after file."""

    op: ClassVar[str] = "tfrecords"
    compression: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files.names(self.op, "filenames", self.files))
        object.__setattr__(self, "compression", compression_of(self.op, self.compression))

    @property
    def is_divided(self) -> bool:
        """See `NamedFiles.is_divided`."""
        return not self.compression

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return not self.compression

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        starts, at = list[int](), 0
        with stored_file.open_part(self.op, part, _HEADERS, in_order=False) as file:
            while head := file.read(HEAD):
                length = record_length(head)
                if length is None:
                    raise RefusalError(
                        f"{self.op}: {part.name} has no record at byte {at}: it is compressed, or "
                        "damaged: use shuffle(buffer_size)"
                    )
                starts.append(at)
                at += HEAD + length + TAIL
                file.seek(at)
        return np.array(starts, np.int64)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        return _TFRecordsReader(self.op, part, place, self.compression)


class _TFRecordsReader(RecordReader):
    """The records from the first boundary in a part to the first one in a later part.

    A boundary is a byte from which several headers follow each other, with right checksums
    (`record_starts`). The reader of the part before meets each boundary that it does not end at,
    so a boundary that is none is an error, and never elements that the file does not have.
    """

    def compression(self, raw: io.BufferedReader[Any], given: str) -> str:
        """See `RecordReader.compression`."""
        return given or ("" if record_length(raw.peek(HEAD)[:HEAD]) is not None else GUESSED)

    def begin(self) -> None:
        """See `RecordReader.begin`."""
        part = self.part
        if not part.start:
            return
        stop = part.size if part.stop is None else part.stop
        first = find_start(self.file, part.start, stop, part.size)
        if first is None:
            self.is_over = True
        else:
            self.byte = first
            self.resume()

    def read(self, n: int, out: list[Element], sizes: list[int]) -> None:
        """See `RecordReader.read`."""
        at, file = self.byte, self.file
        for _ in range(n):
            if self.stop is not None and at >= self.stop and self._is_end(at):
                return
            head = file.read(HEAD)
            if not head:
                return
            if len(head) < HEAD:
                raise _cut_short(HEAD - len(head), "length")
            length = record_length(head)
            if length is None:
                raise BadRecordError("the checksum of the record's length is wrong")
            if length > LONGEST:
                raise BadRecordError(f"the record claims {length} bytes, and {LONGEST} is the most")
            body = _read(file, length + TAIL)
            if len(body) < length + TAIL:
                raise _cut_short(length + TAIL - len(body), "data")
            data = body[:length]
            if masked(data) != int.from_bytes(body[length:], "little"):
                raise BadRecordError(
                    "the checksum of the record's data is wrong", len(head) + len(body)
                )
            out.append(data)
            sizes.append(HEAD + len(body))
            at += HEAD + len(body)

    def _is_end(self, at: int) -> bool:
        """Return whether the next part begins at *at*, where a record ended.

        Raises:
            BadRecordError: when it begins before.
        """
        stop, size = cast("int", self.stop), self.part.size
        before = find_start(self.file, stop, at, size)
        if before is not None:
            raise BadRecordError(
                f"a record holds what looks like records itself, at byte {before}, so the file "
                "cannot be divided: compress it with gzip, then one worker reads all of it"
            )
        self.stop = at
        self.is_over = find_start(self.file, at, at + 1, size) is not None
        self.file.seek(at)
        return self.is_over


def _read(file: BinaryIO, nbytes: int) -> bytes:
    """Return the next *nbytes* of *file*, or all that there are."""
    if nbytes <= PIECE:
        return file.read(nbytes)
    pieces: list[bytes] = []
    while nbytes and (piece := file.read(min(nbytes, PIECE))):
        pieces.append(piece)
        nbytes -= len(piece)
    return b"".join(pieces)


def _cut_short(missing: int, part: str) -> BadRecordError:
    return BadRecordError(f"the file is cut short: {missing} bytes of the record's {part} are gone")

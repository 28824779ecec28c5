"""`tfrecords`: the records of TFRecord files, whose checksums are checked.

A record is its length (8 bytes, little-endian), the masked CRC-32C of that, the data, and the
masked CRC-32C of the data; https://www.tensorflow.org/tutorials/load_data/tfrecord has the format.
State: see `penstock.ops.internal.file_records`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

import google_crc32c

from penstock import files
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.ops.internal.compressed import compression_of
from penstock.ops.internal.file_records import (
    BadRecordError,
    FileRecords,
    FileSource,
)

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8

LONGEST = 1 << 31
"""The most bytes of a record; a length above it is malformed, because no message is longer."""

PIECE = 1 << 24
"""Bytes of a record that are read at a time: a length that was made up takes no memory."""


@dataclass(frozen=True, eq=False)
class TFRecords(FileSource):
    """The records of *files*, as `bytes`, file after file."""

    op: ClassVar[str] = "tfrecords"
    compression: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files.names(self.op, "filenames", self.files))
        object.__setattr__(self, "compression", compression_of(self.op, self.compression))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _TFRecordsIterator(context, self.files, self.compression, state)


class _TFRecordsIterator(FileRecords[bytes]):
    op = TFRecords.op

    def read(self, file: BinaryIO, n: int, out: list[bytes]) -> None:
        """See `FileRecords.read`."""
        for _ in range(n):
            head = file.read(_HEAD.size)
            if not head:
                return
            if len(head) < _HEAD.size:
                raise _cut_short(_HEAD.size - len(head), "length")
            length, check = _HEAD.unpack(head)
            if _masked(head[:8]) != check:
                raise BadRecordError("the checksum of the record's length is wrong")
            if length > LONGEST:
                raise BadRecordError(f"the record claims {length} bytes, and {LONGEST} is the most")
            body = _read(file, length + _TAIL.size)
            if len(body) < length + _TAIL.size:
                raise _cut_short(length + _TAIL.size - len(body), "data")
            if _masked(memoryview(body)[:length]) != _TAIL.unpack_from(body, length)[0]:
                raise BadRecordError(
                    "the checksum of the record's data is wrong", len(head) + len(body)
                )
            out.append(head + body)

    def element(self, record: bytes) -> Element:
        """See `FileRecords.element`."""
        return record[_HEAD.size : -_TAIL.size]


def _read(file: BinaryIO, nbytes: int) -> bytes:
    """Return the next *nbytes* of *file*, or all that there are."""
    if nbytes <= PIECE:
        return file.read(nbytes)
    pieces: list[bytes] = []
    while nbytes and (piece := file.read(min(nbytes, PIECE))):
        pieces.append(piece)
        nbytes -= len(piece)
    return b"".join(pieces)


def _masked(data: bytes | memoryview) -> int:
    crc = int(google_crc32c.value(bytes(data)))
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _cut_short(missing: int, part: str) -> BadRecordError:
    return BadRecordError(f"the file is cut short: {missing} bytes of the record's {part} are gone")

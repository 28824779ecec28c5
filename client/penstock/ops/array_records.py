"""`array_records`: the records of ArrayRecord files, which the package array_record reads.

State: see `penstock.ops.internal.file_parts`; a place is 0 and the number of a record in its file.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock import stored_file
from penstock.element import Element
from penstock.engine.rows import Block
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.ops.internal.file_parts import (
    START,
    BadRecordError,
    PartReader,
    PartsSource,
    Place,
)
from penstock.stored_file import CHUNK

_ONE_BY_ONE = "readahead_buffer_size:0,max_parallelism:0"
"""How to read: a chunk of records is decoded once, and no threads read beyond the part."""


@dataclass(frozen=True, eq=False)
class ArrayRecords(PartsSource):
    """The records of files, as `bytes`."""

    op: ClassVar[str] = "array_records"

    @property
    def has_index(self) -> bool:
        """See `PartsSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `PartsSource.index`."""
        with closing(_RecordReader(self.op, part, START)) as reader:
            return np.array([[0, reader.count()]], np.int64)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _RecordReader(self.op, part, place)


class _RecordReader(PartReader):
    """The records of *part*: its share of those of the file, by number.

    array_record reads local files only. So the first part of a remote file copies it, and has all
    of its records.
    """

    def __init__(self, op: str, part: FilePart, place: Place) -> None:
        remote = stored_file.is_url(part.name)
        self._whole = part.name if remote else ""
        self._reader: Any = None
        self._file: BinaryIO | None = None
        self._at = self._stop = 0
        if remote and part.start:
            return
        try:
            self._file = stored_file.open_part(op, part, CHUNK)
            if remote:
                stored_file.read_to_end(self._file)
                self._file = _copied(self._file)
            self._reader = _reader_of(self._file)
            low, high = 0, self._reader.num_records()
            if not remote and part.stop is not None:
                low, high = (-(-at * high // part.size) for at in (part.start, part.stop))
            self._at, self._stop = (low if place == START else place[1]), high
        except BaseException:
            self.close()
            raise
        self._stands = False
        """Whether the next record of the reader is that of `_at`."""

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        out: list[Element] = []
        try:
            while len(out) < n and self._at < self._stop:
                out.append(self._record())
                self._at += 1
        except (RuntimeError, IndexError) as exc:
            self._reader, self._stands = None, False  # after an error, it reads nothing
            if not out:
                raise BadRecordError(str(exc), 1) from exc
        return out

    def _record(self) -> bytes:
        if not self._stands:
            if self._reader is None and self._file is not None:
                self._reader = _reader_of(self._file)
            self._reader.seek(self._at)
            self._stands = True
        record: bytes = self._reader.read()
        return record

    def count(self) -> int:
        """Return how many records the file has."""
        return int(self._reader.num_records())

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        self._at, self._stands = place[1], False

    def is_before(self, following: FilePart) -> bool:
        """See `PartReader.is_before`."""
        return following.name != self._whole

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        at = self._at
        return lambda back: (0, at - back)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"record {self._at}"

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._at += size

    def close(self) -> None:
        """See `PartReader.close`."""
        self._reader = None
        if self._file is not None:
            self._file.close()


def _copied(file: BinaryIO) -> BinaryIO:
    """Return a local copy of *file*, which is removed when it is closed."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115  its reader closes it
    with file:
        shutil.copyfileobj(file, copy, CHUNK)
    copy.flush()
    return copy


def _reader_of(file: BinaryIO) -> Any:
    needed("array_record", "Dataset.array_records")
    from array_record.python.array_record_module import ArrayRecordReader  # noqa: PLC0415  an extra

    # By its number, because array_record takes no name that is not UTF-8.
    reader = ArrayRecordReader(f"/dev/fd/{file.fileno()}", _ONE_BY_ONE)
    if not reader.ok():
        raise ValueError("it is no ArrayRecord file, or it was cut short")
    return reader

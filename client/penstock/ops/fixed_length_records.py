"""`fixed_length_records`: records of a fixed number of bytes, between a header and a footer.

State: see `penstock.ops.internal.file_records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, ClassVar

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
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class FixedLengthRecords(FileSource):
    """The records of *files*, as `bytes`, file after file."""

    op: ClassVar[str] = "fixed_length_records"
    nbytes: int
    header: int
    footer: int
    compression: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files.names(self.op, "filenames", self.files))
        object.__setattr__(self, "nbytes", check_count(self.op, "record_bytes", self.nbytes))
        for name, parameter in (("header", "header_bytes"), ("footer", "footer_bytes")):
            count = check_count(self.op, parameter, getattr(self, name) or 0, least=0)
            object.__setattr__(self, name, count)
        object.__setattr__(self, "compression", compression_of(self.op, self.compression))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _FixedLengthIterator(self, context, state)


class _FixedLengthIterator(FileRecords[bytes]):
    op = FixedLengthRecords.op

    def __init__(self, node: FixedLengthRecords, context: Context, state: State) -> None:
        super().__init__(context, node.files, node.compression, state)
        self._nbytes, self._header, self._footer = node.nbytes, node.header, node.footer
        self._ahead = b""
        """Bytes that were read and not used yet, because they may be the footer."""

    def start(self, file: BinaryIO, byte: int) -> int:
        """See `FileRecords.start`."""
        self._ahead = b""
        return super().start(file, max(byte, self._header))

    def read(self, file: BinaryIO, n: int, out: list[bytes]) -> None:
        """See `FileRecords.read`."""
        size = n * self._nbytes + self._footer
        data = self._ahead + file.read(size - len(self._ahead))
        count = max(0, len(data) - self._footer) // self._nbytes
        stop = count * self._nbytes
        out += (data[at : at + self._nbytes] for at in range(0, stop, self._nbytes))
        self._ahead = data[stop:]
        if not count and len(data) != self._footer:
            raise BadRecordError(
                f"the file ends {len(data)} bytes after this place; a record of {self._nbytes} "
                f"bytes and a footer of {self._footer} were expected, or the footer alone"
            )

    def element(self, record: bytes) -> Element:
        """See `FileRecords.element`."""
        return record

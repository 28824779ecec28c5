"""`fixed_length_records`: records of a fixed number of bytes, between a header and a footer.

State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock import files, stored_file
from penstock.element import Element
from penstock.file_parts import FilePart
from penstock.ops.internal.compressed import by_suffix, compression_of
from penstock.ops.internal.file_parts import (
    BadRecordError,
    NamedFiles,
    PartReader,
    Place,
    RefusalError,
)
from penstock.ops.internal.record_parts import RecordReader
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class FixedLengthRecords(NamedFiles):
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

    @property
    def is_divided(self) -> bool:
        """See `NamedFiles.is_divided`."""
        return not self.compression

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return not self.compression

    @property
    def index_name(self) -> str:
        """See `FileSource.index_name`."""
        return f"{self.op}({self.nbytes}, {self.header}, {self.footer})"

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        stored_file.check_version(self.op, part)
        nbytes, stop = self.nbytes, part.size - self.footer
        if by_suffix(part.name) or not part.version or (stop - self.header) % nbytes:
            raise RefusalError(
                f"{self.op}: {part.name} ({part.size} bytes) has no index: it is compressed, or "
                "records do not fill it between header and footer: use shuffle(buffer_size)"
            )
        return np.arange(self.header, stop, nbytes, dtype=np.int64)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        return _FixedReader(self, part, place)


class _FixedReader(RecordReader):
    """A part has the records that begin in it; the last one has the footer too."""

    def __init__(self, node: FixedLengthRecords, part: FilePart, place: Place) -> None:
        self._node = node
        self._ahead = b""
        """Bytes that were read and not used yet, because they may be the footer."""
        super().__init__(node.op, part, place, node.compression or by_suffix(part.name))
        if self.stop is not None:
            self.stop = self._first(self.stop)

    def begin(self) -> None:
        """See `RecordReader.begin`."""
        self.byte = self._first(self.part.start) if self.part.start else self._node.header
        self.resume()

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        super().move(place)
        self._ahead = b""

    def _first(self, byte: int) -> int:
        """Return where the first record begins at *byte* or after it, or the footer."""
        node, size = self._node, self.part.size
        whole = max(0, size - node.header - node.footer) // node.nbytes
        number = min(whole, max(0, -(-(byte - node.header) // node.nbytes)))
        return node.header + number * node.nbytes

    def read(self, n: int, out: list[Element], sizes: list[int]) -> None:
        """See `RecordReader.read`."""
        nbytes, footer = self._node.nbytes, self._node.footer
        if self.stop is not None:
            n, footer = min(n, (self.stop - self.byte) // nbytes), 0
            if n <= 0:
                return
        data = self._ahead + self.file.read(n * nbytes + footer - len(self._ahead))
        count = max(0, len(data) - footer) // nbytes
        stop = count * nbytes
        out += (data[at : at + nbytes] for at in range(0, stop, nbytes))
        sizes += [nbytes] * count
        self._ahead = data[stop:]
        if not count and len(data) != footer:
            raise BadRecordError(
                f"the file ends {len(data)} bytes after this place; a record of {nbytes} "
                f"bytes and a footer of {footer} were expected, or the footer alone"
            )

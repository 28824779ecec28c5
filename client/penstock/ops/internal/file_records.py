"""Sources of records in files: what `text_lines`, `tfrecords`, `csv` and others share.

State: that of `penstock.ops.internal.unit_cursor`, counting files; behind it the byte in the file
(decompressed) at which the next record begins, and that record's number in the file.
"""

from __future__ import annotations

import gzip
import io
import zlib
from abc import abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, NoReturn, TypeVar, cast

from penstock import files
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.executors.function import transform_error
from penstock.graph.node import Node
from penstock.ops.internal.unit_cursor import Units
from penstock.protocol.splits import FilePattern
from penstock.runtime.interrupts import interruptible, is_interrupt

R = TypeVar("R", bound=Sized)
"""A record, as long as the bytes that it takes in the file."""

CHUNK = 1 << 18
"""How many bytes are read at a time."""


class BadRecordError(Exception):
    """A record is not what it should be. It takes *nbytes*, if what follows can be read at all."""

    def __init__(self, text: str, nbytes: int | None = None) -> None:
        super().__init__(text)
        self.nbytes = nbytes


class RefusalError(Exception):
    """What was asked for makes no sense for these files: that is no fault of a record."""


@dataclass(frozen=True, eq=False)
class FileSource(Node):
    """What is in *files*, file after file."""

    files: tuple[str, ...]

    def units(self) -> FilePattern:
        """See `Node.units`."""
        return FilePattern(self.files, shuffle=False, seed=None, literal=True)


class FileRecords(OpIterator, Generic[R]):
    """The records of one file after another. A subclass says what a record is."""

    op: str

    def __init__(
        self, context: Context, names: tuple[str, ...], compression: str, state: State
    ) -> None:
        place, self._byte, self._record = None, 0, 0
        if state is not None:
            *place, self._byte, self._record = state
        self._compression = compression
        if context.draws_splits:
            self._units = Units(context, None, place)
        else:
            self._units = Units(context, len(names), place, names)
            files.check_local(self.op, names[place[0] if place else 0 :])
        self._file: BinaryIO | None = None
        """The file that was taken last from the units; None between files."""
        self._number, self._name = 0, ""
        self._failed: Exception | None = None
        """What is to be raised behind the records that were read."""
        self._last: list[int] = []
        """How many bytes each record of the last block took."""
        self._reading = self._closed = False

    @abstractmethod
    def read(self, file: BinaryIO, n: int, out: list[R]) -> None:
        """Append up to *n* records to *out*, as they lie in the file; none at its end.

        What was appended before an error counts.
        """

    @abstractmethod
    def element(self, record: R) -> Element:
        """Return what a record holds."""

    def start(self, file: BinaryIO, byte: int) -> int:
        """Go to *byte* of a file that was just opened; return where the next record begins."""
        file.seek(byte)
        return byte

    def opened(self, name: str) -> BinaryIO:
        """Open a file, to be read forwards."""
        return _decompressed(files.open_file(name, CHUNK), self._compression)

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Never crosses the end of a file."""
        self._last = []
        while self._file is not None or self._next_file():
            records = self._records(n)
            if records:
                self._last = list(map(len, records))
                self._byte += sum(self._last)
                self._record += len(records)
                return list(map(self.element, records))
            self._leave_file()
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`. In a file, the position among the units is before it."""
        place, inside = self._units.mark(), int(self._file is not None)
        byte, record, last = self._byte, self._record, self._last

        def at(back: int) -> State:
            behind = sum(last[len(last) - back :])
            return [*place(inside), byte - behind, record - back]

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        # Closing a file waits for the thread that reads it; then that thread closes it.
        if not self._reading:
            self._leave_file()

    def _next_file(self) -> bool:
        """Open the next file at the byte of the state; return False when there is none."""
        start, stop = self._units.take(1)
        if start == stop:
            return False
        self._number, (self._name,) = start, self._units.names(start, stop)
        try:
            self._file = interruptible(self.opened, self._name)
            self._byte = interruptible(self.start, self._file, self._byte)
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            self._fail(exc)
        return True

    def _records(self, n: int) -> list[R]:
        if self._failed is not None:
            self._fail(self._failed)
        records: list[R] = []
        self._reading = True
        try:  # what was read before an error stays in the list
            interruptible(self.read, cast("BinaryIO", self._file), n, records)
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            if not records or is_interrupt(exc):
                self._fail(exc)
            self._failed = exc
        finally:
            self._reading = False
            if self._closed:
                self._leave_file()
        return records

    def _fail(self, exc: Exception) -> NoReturn:
        """Give the record up if the next one can be found; else the rest of the file."""
        if is_interrupt(exc):
            raise exc
        label, number, place = f"{self.op}({self._name})", self._number, self._place()
        self._failed = None
        if isinstance(exc, BadRecordError) and exc.nbytes is not None:
            self._byte, self._record = self._byte + exc.nbytes, self._record + 1
        else:
            self._leave_file()
        try:
            if isinstance(exc, FileNotFoundError):
                raise files.missing(self.op, self._name) from exc
            if isinstance(exc, RefusalError):
                raise DatasetError(str(exc)) from None
            error = transform_error(label, number, exc)
            raise error.but(detail=f"{error.detail} ({place})") from exc
        finally:
            del exc

    def _place(self) -> str:
        return f"record {self._record}, at byte {self._byte} of {self._name}"

    def _leave_file(self) -> None:
        file, self._file, self._byte, self._record = self._file, None, 0, 0
        self._failed = None
        if file is not None:
            file.close()


def compression_of(op: str, given: Any) -> str:
    """Return the name of a compression that a user gave: none, ``"GZIP"`` or ``"ZLIB"``.

    Raises:
        DatasetError: naming the operator and the value.
    """
    if given in (None, "", "GZIP", "ZLIB"):
        return given or ""
    raise DatasetError(f"{op}: compression_type must be None, 'GZIP' or 'ZLIB', not {given!r}")


def _decompressed(file: BinaryIO, compression: str) -> BinaryIO:
    match compression:
        case "GZIP":
            return cast("BinaryIO", _GzipFile(file))
        case "ZLIB":
            return cast("BinaryIO", io.BufferedReader(_ZlibFile(file), CHUNK))
        case _:
            return file


class _GzipFile(gzip.GzipFile):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._inner = file

    def close(self) -> None:
        super().close()
        self._inner.close()


class _ZlibFile(io.RawIOBase):
    """What a zlib stream holds; it can only go forward."""

    def __init__(self, file: BinaryIO) -> None:
        self._inner, self._stream = file, zlib.decompressobj()
        self._held = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        while self._at < offset and (passed := self.read(min(CHUNK, offset - self._at))):
            del passed
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        while not self._held and not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._inner.read(CHUNK)
            if not packed:
                raise EOFError("the file ended before the end of its zlib stream")
            self._held = self._stream.decompress(packed, CHUNK)
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        self._at += count
        return count

    def close(self) -> None:
        super().close()
        self._inner.close()

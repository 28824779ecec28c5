"""The common part of sources of records in files: `text_lines`, `tfrecords`, `csv` and others.

State: that of `penstock.ops.internal.unit_cursor`, counting files, followed by two numbers: the
byte in the (decompressed) file at which the next record begins, and that record's number in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import BinaryIO, Generic, NoReturn, TypeVar, cast

from penstock import files, stored_file
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.executors.function import transform_error
from penstock.graph.node import Node
from penstock.ops.internal.compressed import decompressed
from penstock.ops.internal.unit_cursor import Units
from penstock.protocol.splits import FilePattern
from penstock.runtime.interrupts import interruptible, is_interrupt
from penstock.stored_file import CHUNK, why_unread

R = TypeVar("R", bound=Sized)
"""A record, as long as the bytes that it takes in the file."""


class BadRecordError(Exception):
    """A record is malformed. If the next record can be read, this one takes *nbytes* bytes."""

    def __init__(self, text: str, nbytes: int | None = None) -> None:
        super().__init__(text)
        self.nbytes = nbytes


class RefusalError(Exception):
    """The user's parameters make no sense for these files; no record is at fault."""


@dataclass(frozen=True, eq=False)
class FileSource(Node):
    """The records of *files*, file after file."""

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
        """The error to raise after the records that were read."""
        self._last: list[int] = []
        """How many bytes each record of the last block took."""
        self._reading = self._closed = False

    @abstractmethod
    def read(self, file: BinaryIO, n: int, out: list[R]) -> None:
        """Append up to *n* records to *out*, as they lie in the file; none at its end.

        If it raises, the records appended before the error count.
        """

    @abstractmethod
    def element(self, record: R) -> Element:
        """Return the element that *record* holds."""

    def start(self, file: BinaryIO, byte: int) -> int:
        """Go to *byte* of a file that was just opened; return where the next record begins."""
        if byte:  # a pipe cannot seek
            file.seek(byte)
        return byte

    def opened(self, name: str) -> BinaryIO:
        """Open a file for reading from start to end."""
        return decompressed(stored_file.open_file(name, CHUNK), self._compression)

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
        try:  # records read before an error stay in the list
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
        """Skip the record if the next one can be found; else skip the rest of the file."""
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
                if not (why := why_unread(exc)):
                    raise files.missing(self.op, self._name) from exc
                exc = OSError(why)
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

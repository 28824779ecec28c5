"""`csv`: the rows of CSV files, as dicts of columns. pyarrow reads them.

State: see `penstock.ops.internal.file_parts`. Columns whose types were not given have the types
inferred from the first rows of the first file, whatever part of the files is read. A file is
divided only if no row has a line break inside: no part knows whether it begins in quotes.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, ClassVar, Literal

from penstock import files, stored_file
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.file_parts import FilePart
from penstock.graph.node import added
from penstock.ops.internal.compressed import GUESSED, compression_of, decompressed
from penstock.ops.internal.csv_columns import (
    BOM,
    CsvColumn,
    Format,
    Parser,
    RowReader,
    arrow,
    check_text,
    infer,
    is_blank,
)
from penstock.ops.internal.file_parts import (
    BadRecordError,
    NamedFiles,
    Opener,
    PartReader,
    Place,
    RefusalError,
)
from penstock.ops.internal.record_parts import RecordReader

GROUP = 1024
"""How many rows are parsed at a time."""


@dataclass(frozen=True, eq=False)
class Csv(NamedFiles):
    """The rows of *files*, file after file.

    *columns* holds the name of each column whose type was given, its type and its default. The
    columns *selected* are read, by default all.
    """

    op: ClassVar[str] = "csv"
    names: tuple[str, ...] | None
    columns: tuple[tuple[str, str, Any], ...]
    selected: tuple[str, ...] | None
    delimiter: str
    quotes: bool
    na_value: str
    header: bool
    compression: str
    newlines_in_values: bool = added(True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files.names(self.op, "filenames", self.files))
        object.__setattr__(self, "compression", compression_of(self.op, self.compression))
        for field, parameter in (("names", "column_names"), ("selected", "select_columns")):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _texts(parameter, getattr(self, field)))
        if self.names is None and not self.header:
            raise DatasetError("csv: give column_names, where files have no header")
        delimiter = self.delimiter
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\0':
            raise DatasetError(f"csv: field_delim must be one character, not {delimiter!r}")
        if not delimiter.isascii():
            raise DatasetError(f"csv: field_delim must be an ASCII character, not {delimiter!r}")
        if not isinstance(self.na_value, str):
            raise DatasetError(f"csv: na_value must be text, not {self.na_value!r}")
        check_text("na_value", self.na_value)
        if self.names is not None:
            self.form(self.names)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        arrow()
        return super().open(context, state)

    @property
    def is_divided(self) -> bool:
        """See `NamedFiles.is_divided`."""
        return not self.compression and not self.has_long_rows

    @property
    def has_long_rows(self) -> bool:
        """Whether a row may have line breaks inside, in quotes."""
        return self.quotes and self.newlines_in_values

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        return self.opener()(part, place)

    def opener(self) -> Opener:
        """See `FileSource.opener`."""
        return _CsvRun(self).open_part

    def form(self, names: tuple[str, ...]) -> Format:
        """Return how rows are written, where *names* are those of the columns.

        Raises:
            DatasetError: when a column was given that is not among them.
        """
        selected = names if self.selected is None else self.selected
        for parameter, given in (
            ("select_columns", selected),
            ("column_defaults", tuple(name for name, _, _ in self.columns)),
        ):
            for name in given:
                if name not in (names if parameter == "select_columns" else selected):
                    raise DatasetError(
                        f"csv: {parameter} names {name!r}, and the columns are "
                        f"{_listed(names if parameter == 'select_columns' else selected)}"
                    )
        return Format(names, selected, self.delimiter, self.quotes, self.na_value)


class _RowsReader(RecordReader):
    def __init__(self, run: _CsvRun, node: Csv, part: FilePart, place: Place) -> None:
        self._run, self._node = run, node
        self._raw: deque[tuple[bytes, int]] = deque()
        """Rows of the file that were read, and how many bytes each takes with those before it."""
        self._ahead: deque[tuple[Element | Exception, int]] = deque()
        """Rows that were parsed, and not asked for yet, or their errors."""
        self._is_past = False
        """Whether the last row of the part was read."""
        self.by_frames = not node.has_long_rows
        super().__init__(node.op, part, place, node.compression or GUESSED)

    def resume(self) -> None:
        """See `RecordReader.resume`."""
        self._open()

    def begin(self) -> None:
        """See `RecordReader.begin`."""
        if self.part.start:
            self.byte = 0 if self.is_packed else self.part.start
            self._open()
            self._rows.pass_broken()
        else:
            self._begin_file()
        self.byte = self._rows.at

    def _begin_file(self) -> None:
        form = self._open()
        if not self._node.header:
            return
        names = self._rows.header()
        # Writers leave parts without a byte.
        if names is not None and self._node.names is None and names != form.names:
            raise DatasetError(
                f"the columns are {_listed(names)}, and those of {self._node.files[0]} are "
                f"{_listed(form.names)}; read files that differ by datasets of their own"
            )

    def _open(self) -> Format:
        """Make `_rows` of the file from `byte` on; return how rows are written."""
        if self.part.start or (self.byte and self.part.version):
            form, self._parser = self._run.format(None)
            file = self.file
        else:  # it may be a pipe
            again = _Again(self.file, self.part.name)
            form, self._parser = self._run.format(again)
            file = again.begin()
        self._rows = _Rows(file, self.part.name, self._node, self.byte)
        return form

    def read(self, n: int, out: list[Element], sizes: list[int]) -> None:
        """See `RecordReader.read`."""
        if not self._raw and not self._ahead and not self._is_past:
            self._take()
        if not self._ahead and self._raw:
            group = [self._raw.popleft() for _ in range(min(GROUP, len(self._raw)))]
            outcomes = self._parser.parse([row for row, _ in group])
            self._ahead.extend(zip(outcomes, (size for _, size in group), strict=True))
        for _ in range(min(n, len(self._ahead))):
            outcome, size = self._ahead.popleft()
            if isinstance(outcome, Exception):
                raise BadRecordError(str(outcome), size)
            out.append(outcome)
            sizes.append(size)

    def _take(self) -> None:
        """Read the next rows, of those that begin up to the end of the part."""
        at = self._rows.at
        rows, sizes = self._rows.take()
        end = self.end
        for row, size in zip(rows, sizes, strict=True):
            if end is not None and at + size - len(row) > end:
                self._is_past = True
                break
            self._raw.append((row, size))
            at += size


class _CsvRun:
    """What the parts of one run share: how rows are written, and their parser."""

    def __init__(self, node: Csv) -> None:
        self._node = node
        self._known: tuple[Format, Parser] | None = None

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        return _RowsReader(self, self._node, part, place)

    def format(self, current: _Again | None) -> tuple[Format, Parser]:
        """Return how rows are written, and their parser, from the first file.

        *current* is the file that was just opened, if it is at its start.
        """
        if self._known is None:
            node = self._node
            known = {name: CsvColumn(dtype, default) for name, dtype, default in node.columns}
            form = None if node.names is None else node.form(node.names)
            if form is None or set(form.selected) - set(known):
                form, known = self._look(form, known, current)
            self._known = form, Parser(form, known)
        return self._known

    def _look(
        self, form: Format | None, known: dict[str, CsvColumn], current: _Again | None
    ) -> tuple[Format, dict[str, CsvColumn]]:
        """Read names and types that the user did not give from the first rows of the first file."""
        node = self._node
        for name in files.listing(node.op, replace(node.units(), cuts=(), part_bytes=0)):
            with self._looked_at(name, current) as file:
                rows = _Rows(file, name, node, 0)
                names = rows.header() if node.header else ()
                if names is None:
                    continue
                form = form or _agreed(node, names)
                sample, _ = rows.take()
            if sample:
                break
        else:
            sample = []
        if form is None:
            raise DatasetError(f"{node.files[0]} is empty, and should have a header")
        return form, infer(form, sample, known)

    def _looked_at(self, name: str, current: _Again | None) -> AbstractContextManager[Any]:
        if current and name == current.name:  # a pipe cannot be opened twice
            return nullcontext(current)
        raw = stored_file.open_file(name, stored_file.CHUNK)
        return decompressed(raw, self._node.compression or GUESSED)


class _Again:
    """A file that may be read from its beginning once more, though it is a pipe."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file, self._read = file, bytearray()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._read += data
        return data

    def begin(self) -> BinaryIO:
        """Return the file as if nothing had been read of it."""
        return stored_file.begun(bytes(self._read), self._file) if self._read else self._file


def _agreed(node: Csv, names: tuple[str, ...]) -> Format:
    try:
        return node.form(names)
    except DatasetError as exc:
        raise RefusalError(str(exc)) from None


class _Rows:
    """The rows of a file from *byte* on that are not blank."""

    def __init__(self, file: BinaryIO, name: str, node: Csv, byte: int) -> None:
        if byte:  # a pipe cannot seek
            file.seek(byte)
        self._name = name
        self._reader = RowReader(file, node.delimiter, quotes=node.has_long_rows)
        self._node = node
        self._read = self._reader.rows()
        self.at = byte
        """Where the rows begin that were not taken."""
        self._size = 0
        """How many bytes of blank rows came before the next one."""
        if not byte and self._read and self._read[0].startswith(BOM):
            self.at, self._read[0] = len(BOM), self._read[0][len(BOM) :]

    def pass_broken(self) -> None:
        """Pass over the rest of a row that began before."""
        self._read = self._read or self._reader.rows()
        if self._read:
            self.at += len(self._read.pop(0))

    def header(self) -> tuple[str, ...] | None:
        """Take the first row, and return the names that it holds, or those that were given.

        None if the file has no row.

        Raises:
            DatasetError: when it is no UTF-8, or it names a column twice.
        """
        row = b""
        while is_blank(row):
            self._read = self._read or self._reader.rows()
            if not self._read:
                return None
            row = self._read.pop(0)
            self.at += len(row)
        return self._names(row) if self._node.names is None else self._node.names

    def _names(self, row: bytes) -> tuple[str, ...]:
        text = io.StringIO(row.decode("utf-8", "surrogateescape"), newline="")
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self._node.quotes else csv.QUOTE_NONE
        try:
            names = tuple(next(csv.reader(text, delimiter=self._node.delimiter, quoting=quoting)))
        except csv.Error as exc:
            raise DatasetError(f"the header of {self._name} cannot be read: {exc}") from exc
        for i, name in enumerate(names):
            if any("\ud800" <= char <= "\udfff" for char in name):
                data = name.encode("utf-8", "surrogateescape")[:100]
                raise DatasetError(
                    f"the header of {self._name} is not UTF-8: the name of column {i} is "
                    f"{data!r}; convert the file to UTF-8, or give column_names"
                )
        return _texts(f"the header of {self._name}", names)

    def take(self) -> tuple[list[bytes], list[int]]:
        """Take the next rows; return how many bytes each takes, with those before it.

        None at the end of the file.
        """
        rows: list[bytes] = []
        sizes: list[int] = []
        while not rows and (read := self._read or self._reader.rows()):
            self._read = []
            for row in read:
                self._size += len(row)
                if not is_blank(row):
                    rows.append(row)
                    sizes.append(self._size)
                    self._size = 0
        self.at += sum(sizes)
        return rows, sizes


def _texts(parameter: str, given: Any) -> tuple[str, ...]:
    texts = tuple(given) if isinstance(given, (list, tuple)) else ()
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DatasetError(f"csv: {parameter} must be a list of names, not {given!r}")
    for text in texts:
        check_text(parameter, text)
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise DatasetError(f"csv: {parameter} names {twice!r} twice")
    return texts


def _listed(names: tuple[str, ...]) -> str:
    """Return names for an error; what a terminal would obey is escaped."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)

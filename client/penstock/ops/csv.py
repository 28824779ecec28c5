"""`csv`: the rows of CSV files, as dicts of columns. pyarrow reads them.

State: see `penstock.ops.internal.file_records`. Columns whose types were not given have the types
inferred from the first rows of the first file, whatever part of the files is read.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Literal

from penstock import files, stored_file
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.ops.internal.compressed import GUESSED, compression_of
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
from penstock.ops.internal.file_records import (
    BadRecordError,
    FileRecords,
    FileSource,
    RefusalError,
)

GROUP = 1024
"""How many rows are parsed at a time."""


@dataclass(frozen=True, eq=False)
class Csv(FileSource):
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
        return _CsvIterator(self, context, state)

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


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that takes *nbytes*, with blank rows before it; or the error in the row."""

    nbytes: int
    outcome: Element | Exception

    def __len__(self) -> int:
        return self.nbytes


class _CsvIterator(FileRecords[_Row]):
    op = Csv.op

    def __init__(self, node: Csv, context: Context, state: State) -> None:
        super().__init__(context, node.files, node.compression or GUESSED, state)
        self._node = node
        self._known: tuple[Format, Parser] | None = None
        self._rows: _Rows
        self._raw: deque[tuple[bytes, int]] = deque()
        """Rows of the file that were read, and how many bytes each takes with those before it."""
        self._ahead: deque[_Row] = deque()
        """Rows that were parsed, and not asked for yet."""

    def start(self, file: BinaryIO, byte: int) -> int:
        """See `FileRecords.start`."""
        again = _Again(file)
        form, _ = self._format(again)
        file = again.begin()
        self._raw.clear()
        self._ahead.clear()
        self._rows = _Rows(file, self._name, self._node, byte)
        if byte or not self._node.header:
            return self._rows.at
        names = self._rows.header()
        if names is None:  # writers leave parts without a byte
            return self._rows.at
        if self._node.names is None and names != form.names:
            raise DatasetError(
                f"the columns are {_listed(names)}, and those of {self._node.files[0]} are "
                f"{_listed(form.names)}; read files that differ by datasets of their own"
            )
        return self._rows.at

    def read(self, file: BinaryIO, n: int, out: list[_Row]) -> None:  # noqa: ARG002
        """See `FileRecords.read`."""
        _, parser = self._format(None)
        if not self._raw and not self._ahead:
            self._raw.extend(zip(*self._rows.take(), strict=True))
        if not self._ahead:
            self._parse(parser)
        for _ in range(min(n, len(self._ahead))):
            row = self._ahead.popleft()
            if isinstance(row.outcome, Exception):
                raise BadRecordError(str(row.outcome), row.nbytes)
            out.append(row)

    def _parse(self, parser: Parser) -> None:
        """Parse the next rows."""
        group = [self._raw.popleft() for _ in range(min(GROUP, len(self._raw)))]
        outcomes = parser.parse([row for row, _ in group]) if group else []
        self._ahead.extend(
            _Row(size, outcome) for (_, size), outcome in zip(group, outcomes, strict=True)
        )

    def element(self, record: _Row) -> Element:
        """See `FileRecords.element`."""
        return record.outcome

    def _format(self, current: _Again | None) -> tuple[Format, Parser]:
        """Return how rows are written, and their parser, from the first file.

        *current* is the file that was just opened.
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
        for name in node.files:
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
        # A pipe cannot be opened twice.
        return nullcontext(current) if current and name == self._name else self.opened(name)


class _Again:
    """A file that may be read from its beginning once more, though it is a pipe."""

    def __init__(self, file: BinaryIO) -> None:
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
        self._reader = RowReader(file, node.delimiter, quotes=node.quotes)
        self._node = node
        self._read = self._reader.rows()
        self.at = byte
        """Where the rows begin that were not taken."""
        self._size = 0
        """How many bytes of blank rows came before the next one."""
        if not byte and self._read and self._read[0].startswith(BOM):
            self.at, self._read[0] = len(BOM), self._read[0][len(BOM) :]

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

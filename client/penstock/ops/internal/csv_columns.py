"""The columns of CSV files: their types, and rows made into elements by pyarrow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.element import Element
from penstock.errors import DatasetError, ElementError
from penstock.ops.internal.file_parts import BadRecordError
from penstock.runtime.tracebacks import shortened

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv
from typing import BinaryIO

LONGEST = 1000
"""The most characters in a message about a row."""

_TEXT: dict[Any, str] = {str: "str", bytes: "bytes"}


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """The type of a column's values; *dtype* is that of NumPy, or ``"str"`` or ``"bytes"``.

    A field without a value becomes *default*; None: that is an error.
    """

    dtype: str
    default: bool | int | float | str | bytes | None = None

    @classmethod
    def of(cls, given: Any) -> CsvColumn:
        """Return what a user meant by a type, whose fields must have values, or by a default.

        Raises:
            DatasetError: when it is neither.
        """
        if given is str or given is bytes:
            return cls(_TEXT[given])
        if isinstance(given, (str, bytes)):
            if isinstance(given, str):
                check_text("column_defaults", given)
            return cls(_TEXT[type(given)], given)
        if isinstance(given, (bool, int, float, np.generic)):
            value = np.asarray(given)
            return cls(_checked(value.dtype, given), value.item())
        if given is None:  # which NumPy takes for float64
            raise _no_type(given)
        try:
            dtype = np.dtype(given)
        except TypeError as exc:
            raise _no_type(given) from exc
        return cls(_checked(dtype, given))


def columns_of(given: Mapping[str, Any]) -> tuple[tuple[str, str, Any], ...]:
    """Return the names of columns, their types and defaults, as plain data.

    Raises:
        DatasetError: when *given* is no mapping of names to types or defaults.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise DatasetError(f"csv: column_defaults must be a dict by column names, not {given!r}")
    columns = {name: CsvColumn.of(value) for name, value in given.items()}
    return tuple((name, column.dtype, column.default) for name, column in columns.items())


@dataclass(frozen=True, slots=True)
class Format:
    """How rows are written: *names* of the columns, of which *selected* are wanted."""

    names: tuple[str, ...]
    selected: tuple[str, ...]
    delimiter: str
    quotes: bool
    na_value: str


class Parser:
    """Makes elements of rows; *columns* says what those that are wanted become."""

    def __init__(self, form: Format, columns: dict[str, CsvColumn]) -> None:
        self._form, self._columns = form, columns
        self._read = _reader(form, {name: _arrow_type(c.dtype) for name, c in columns.items()})

    def parse(self, rows: Sequence[bytes]) -> list[Element | Exception]:
        """Return the element of each row, or the error in the row. No row is blank."""
        pa = arrow()
        try:
            table = self._read(b"".join(rows))
        except pa.ArrowInvalid as exc:
            wrong: Exception = ElementError(_said(exc, self._form))
        else:
            if table.num_rows == len(rows):
                return self._elements(table)
            wrong = ElementError(f"this is {table.num_rows} rows, and not one")
        if len(rows) == 1:
            return [wrong]
        half = len(rows) // 2
        return [*self.parse(rows[:half]), *self.parse(rows[half:])]

    def _elements(self, table: pa.Table) -> list[Element | Exception]:
        missing: dict[int, str] = {}
        values = [self._values(name, table.column(name), missing) for name in self._form.selected]
        names = self._form.selected
        out: list[Element | Exception] = [
            dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)
        ]
        for i, name in missing.items():
            out[i] = ElementError(
                f"column {_named(name)} has no value, and its type is {self._columns[name].dtype}: "
                "give column_defaults a value for it"
            )
        return out

    def _values(self, name: str, fields: Any, missing: dict[int, str]) -> Sequence[Any]:
        """Return the values of a column; note in *missing* which rows must have one and do not."""
        column = self._columns[name]
        numeric = column.dtype not in _TEXT.values()
        if fields.null_count:
            default = column.default
            if default is None:
                absent = fields.is_null().to_numpy()
                missing.update((int(i), name) for i in np.flatnonzero(absent))
                default = np.dtype(column.dtype).type(0).item() if numeric else _EMPTY[column.dtype]
            fields = fields.fill_null(arrow().scalar(default, fields.type))
        if numeric:
            return list(fields.to_numpy())
        values: list[Any] = fields.to_pylist()
        return values


BOM = b"\xef\xbb\xbf"

_EMPTY: dict[str, str | bytes] = {"str": "", "bytes": b""}


def infer(form: Format, rows: Sequence[bytes], known: dict[str, CsvColumn]) -> dict[str, CsvColumn]:
    """Return *known* and, for other columns, what the fields of *rows* look like.

    That is int64, float64 or bool, else text. Missing floats are NaN, missing text is empty.
    """
    pa = arrow()
    types = {name: _arrow_type(column.dtype) for name, column in known.items()}
    open_columns = [name for name in form.selected if name not in known]
    if not open_columns:
        return known
    found: dict[str, Any] = {}
    if rows:
        # A row that is skipped is decoded, and to fail at that pyarrow has no way but to print it.
        data = b"".join(rows).decode("utf-8", "replace").encode()
        try:
            table = _reader(form, types, lambda _: "skip")(data)
        except pa.ArrowInvalid:
            # Of a known column: then rows say so themselves.
            table = _reader(form, {}, lambda _: "skip")(data)
        found = {name: table.schema.field(name).type for name in open_columns}
    return known | {name: _column(pa, found.get(name)) for name in open_columns}


def arrow() -> Any:
    """Import pyarrow, which nothing else needs.

    Raises:
        DatasetError: saying how to install it.
    """
    try:
        import pyarrow  # noqa: ICN001, PLC0415
        import pyarrow.csv  # noqa: PLC0415
    except ImportError as exc:
        raise DatasetError(
            'csv: pyarrow reads the files, and is not installed here: pip install "penstock[csv]"'
        ) from exc
    return pyarrow


def _column(pa: Any, found: Any) -> CsvColumn:
    if found is not None and pa.types.is_integer(found):
        return CsvColumn("int64")
    if found is not None and pa.types.is_floating(found):
        return CsvColumn("float64", float("nan"))
    if found is not None and pa.types.is_boolean(found):
        return CsvColumn("bool")
    return CsvColumn("str", "")


def _reader(form: Format, types: dict[str, Any], invalid: Any = None) -> Any:
    pa = arrow()
    parse = pa.csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char='"' if form.quotes else False,
        newlines_in_values=form.quotes,
        invalid_row_handler=invalid,
    )
    convert = pa.csv.ConvertOptions(
        column_types=types,
        include_columns=list(form.selected),
        null_values=["", form.na_value],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )

    def read(data: bytes) -> Any:
        data = BOM + data  # pyarrow takes one away, and else it would be one of a row
        block = pa.csv.ReadOptions(
            column_names=list(form.names), use_threads=False, block_size=len(data) + 1
        )
        return pa.csv.read_csv(pa.BufferReader(data), block, parse, convert)

    return read


def _arrow_type(dtype: str) -> Any:
    pa = arrow()
    if dtype == "str":
        return pa.string()
    return pa.binary() if dtype == "bytes" else pa.from_numpy_dtype(np.dtype(dtype))


def _checked(dtype: np.dtype[Any], given: Any) -> str:
    if dtype.kind not in "biuf" or dtype == np.float16 or dtype.itemsize > 8:
        raise _no_type(given)
    return dtype.name


def _no_type(given: Any) -> DatasetError:
    return DatasetError(
        "csv: column_defaults must hold types (integers, float32, float64, bool, str, bytes), or "
        f"default values of these, not {given!r}"
    )


_PLACE = re.compile(r"In CSV column #(\d+): (?:CSV conversion error to (\S+): )?(.*)", re.DOTALL)


def _said(exc: Exception, form: Format) -> str:
    """Return what pyarrow says of a row, with the column's name and the remedy."""
    text = shortened(str(exc).replace(" Row #1:", "").strip(), LONGEST)
    place = _PLACE.fullmatch(text)
    if place is None:
        return text
    number, dtype, why = place.groups()
    name = _named(form.names[int(number)])
    if why == "invalid UTF8 data":
        return (
            f"column {name} is not UTF-8: convert the file to it, or have the column's bytes, "
            f"with column_defaults={{{name}: bytes}}"
        )
    if dtype is None:
        return f"column {name}: {why}"
    return (
        f"column {name} is no {dtype}: {why}; if the type was guessed from the first rows, give "
        "column_defaults another one"
    )


def _named(column: str) -> str:
    """Return the name of a *column* as it is written, however long somebody made it."""
    return shortened(repr(column), LONGEST)


def check_text(parameter: str, text: str) -> None:
    """Check that *text* can be written in a file.

    Raises:
        DatasetError: naming the parameter and the value.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DatasetError(
            f"csv: {parameter} holds {text!r}, and lone surrogates are no text in UTF-8"
        ) from None


ROWS_CHUNK = 1 << 18
"""How many bytes are read at a time."""

LONGEST_ROW = 1 << 26
"""Bytes; a row that is longer is taken for one whose quotes are not closed."""

_BREAKS = b"\r\n"


class RowReader:
    """The rows of a file from where it stands, each with its line break."""

    def __init__(self, file: BinaryIO, delimiter: str, *, quotes: bool) -> None:
        self._file, self._quotes = file, quotes
        self._row = _pattern(delimiter.encode())
        self._rest = b""
        """The bytes that were read after the last whole row."""
        self._ended = False

    def rows(self) -> list[bytes]:
        """Return the next rows, about as many as a chunk holds; none at the end of the file.

        Raises:
            BadRecordError: when the last row does not end because a quote is not closed.
        """
        while not self._ended:
            # Read more at a time if a row is long, because its begin is scanned again each time.
            chunk = self._file.read(max(ROWS_CHUNK, len(self._rest)))
            self._ended = not chunk
            found = self._split(self._rest + chunk)
            if found:
                return found
            if len(self._rest) > LONGEST_ROW:
                break
        if self._rest:
            raise BadRecordError(
                f"the row has no end within {len(self._rest)} bytes: is a quote not closed? Files "
                "in which quotes mean nothing are read with use_quote_delim=False"
            )
        return []

    def _split(self, data: bytes) -> list[bytes]:
        """Return the whole rows of *data*, and keep the rest."""
        if self._ended and data and data[-1] not in _BREAKS:
            rows = self._split(data + b"\n")
            if rows and not self._rest:
                rows[-1] = rows[-1][:-1]
            else:
                self._rest = self._rest[:-1]
            return rows
        if self._quotes and b'"' in data:
            rows, end = [], 0
            while found := self._row.match(data, end):
                rows.append(found.group())
                end = found.end()
            self._rest = data[end:]
        else:
            rows = data.splitlines(keepends=True)
            self._rest = rows.pop() if rows and rows[-1][-1] not in _BREAKS else b""
        if rows and not self._rest and not self._ended and rows[-1].endswith(b"\r"):
            self._rest = rows.pop()  # perhaps a \n follows
        return rows


def is_blank(row: bytes) -> bool:
    """Return whether there is nothing in a row."""
    return row in (b"\n", b"\r\n", b"\r", b"")


def _pattern(delimiter: bytes) -> re.Pattern[bytes]:
    """Return what matches one row: fields, of which some may be quoted, and a line break."""
    plain = rb"[^%s\r\n]*+" % re.escape(delimiter)
    field = rb'(?>"(?>[^"]++|"")*+"%s|(?!")%s)' % (plain, plain)
    return re.compile(rb"%s(?>%s%s)*+(?>\r\n?|\n)" % (field, re.escape(delimiter), field))

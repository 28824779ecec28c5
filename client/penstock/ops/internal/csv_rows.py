"""Rows of CSV text: where each begins and ends, with line breaks inside quotes."""

from __future__ import annotations

import re
from typing import BinaryIO

from penstock.ops.internal.file_records import BadRecordError

CHUNK = 1 << 18
"""How many bytes are read at a time."""

LONGEST = 1 << 26
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
            chunk = self._file.read(max(CHUNK, len(self._rest)))
            self._ended = not chunk
            found = self._split(self._rest + chunk)
            if found:
                return found
            if len(self._rest) > LONGEST:
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

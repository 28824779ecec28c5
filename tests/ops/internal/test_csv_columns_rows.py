"""Where rows of CSV text begin and end."""

import io

import pytest

from penstock.ops.internal import csv_columns
from penstock.ops.internal.csv_columns import RowReader, is_blank
from penstock.ops.internal.file_parts import BadRecordError

TEXTS = [
    b"a,b\n1,2\n",
    b"a\r\nb\r\n",
    b"a\rb\r",
    b'"a\nb",c\n"d""e\r\n",f\n',
    b"no break at the end",
    b'"quoted at the end"',
    b"\n\n,\n",
]


def rows_of(text, chunk, monkeypatch, quotes=True):
    monkeypatch.setattr(csv_columns, "ROWS_CHUNK", chunk)
    reader, out = RowReader(io.BytesIO(text), ",", quotes=quotes), []
    while rows := reader.rows():
        out += rows
    return out


@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_the_same_however_the_file_is_read(text, monkeypatch):
    whole = rows_of(text, 1 << 18, monkeypatch)

    assert b"".join(whole) == text
    assert all(rows_of(text, chunk, monkeypatch) == whole for chunk in (1, 2, 3, 7))


def test_a_break_inside_quotes_ends_no_row_unless_quotes_mean_nothing(monkeypatch):
    text = b'"a\nb",c\nd\n'

    assert rows_of(text, 4, monkeypatch) == [b'"a\nb",c\n', b"d\n"]
    assert rows_of(text, 4, monkeypatch, quotes=False) == [b'"a\n', b'b",c\n', b"d\n"]


def test_a_quote_that_is_not_closed_is_an_error_behind_the_rows_before_it(monkeypatch):
    reader = RowReader(io.BytesIO(b'a\nb\n"c\nd\n'), ",", quotes=True)

    assert reader.rows() == [b"a\n", b"b\n"]
    with pytest.raises(BadRecordError, match="quote not closed"):
        reader.rows()


def test_rows_of_nothing_are_blank():
    assert all(map(is_blank, (b"\n", b"\r\n", b"\r", b"")))
    assert not is_blank(b",\n")

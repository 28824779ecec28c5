"""The table of lines: written where they changed, in their order, with a sum of all digests."""

import sqlite3

import pytest

from penstock_dispatcher.journal.row_mac import LineTable, RowMacs, wrapped
from penstock_dispatcher.journal.snapshot import FactLine, JournalSnapshot
from penstock_dispatcher.journal.store import TABLES

MACS = RowMacs(b"k" * 32)


@pytest.fixture
def db():
    with sqlite3.connect(":memory:") as db:
        for statement in TABLES:
            db.execute(statement)
        yield db
    db.close()


def snapshot(*lines, gone=()):
    return JournalSnapshot(1, b"", tuple(FactLine(*line) for line in lines), tuple(gone))


def rows(db):
    return db.execute("SELECT rank, kind, key, body, mac FROM lines ORDER BY rank").fetchall()


def test_lines_keep_their_place_unless_they_go_to_the_end(db):
    table = LineTable(db, MACS)
    total = table.write(snapshot(*(("jobs", key, b"1", True) for key in (b"a", b"b", b"c"))), 0)
    total = table.write(
        snapshot(
            ("jobs", b"b", b"2", False),
            ("jobs", b"a", b"2", True),
            ("jobs", b"d", b"1", True),
            gone=[("jobs", b"c"), ("jobs", b"never")],
        ),
        total,
    )

    assert [row[2:4] for row in rows(db)] == [(b"b", b"2"), (b"a", b"2"), (b"d", b"1")]
    assert all(row[4] == MACS.line(*row[:4]) for row in rows(db))
    assert total == wrapped(sum(row[4] for row in rows(db)))


def test_one_that_should_be_there_and_is_not_is_written_all_the_same(db):
    total = LineTable(db, MACS).write(snapshot(("jobs", b"a", b"1", False)), 0)

    assert rows(db) == [(1, "jobs", b"a", b"1", total)]

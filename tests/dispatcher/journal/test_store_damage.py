"""The journal's file: what was acknowledged is there, and damage is named."""

import logging
import sqlite3

import pytest

from penstock.errors import JournalError
from penstock.protocol.calls import JobParameters
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.facts import JobCreated
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal import wal_check
from penstock_dispatcher.journal.snapshot import Changes
from penstock_dispatcher.journal.store import FORMAT, Store
from tests.dispatcher.journal.random_facts import loaded, written


def test_a_torn_end_is_logged_in_one_line_and_a_whole_one_is_not(file, caplog):
    log = file.with_name("journal.db-wal")
    store = Store(file, power=False)
    for length in range(1, 4):
        written(store, [DatasetRegistered(f"d{length}", (), "")], length)
    main, data = file.read_bytes(), log.read_bytes()
    store.close()
    with caplog.at_level(logging.WARNING, "penstock.dispatcher"):
        file.write_bytes(main)
        log.write_bytes(data)
        assert loaded(file).length == 3
        assert not caplog.records

        file.write_bytes(main)
        log.write_bytes(data[:-100])
        assert loaded(file).length == 2

    (record,) = caplog.records
    assert "cut short" in record.getMessage()
    assert str(log) in record.getMessage()
    assert str(wal_check.FRAME.size + 4096 - 100) in record.getMessage()


def test_a_row_that_was_changed_is_named(file):
    with Store(file, power=False) as store:
        written(store, [DatasetRegistered("d1", (), "")], 1)
        written(store, [DatasetRegistered("d2", (), "")], 2)
    with sqlite3.connect(file) as db:
        db.execute(
            "UPDATE facts SET body = CAST(replace(body, 'd2', 'd3') AS BLOB) WHERE length = 2"
        )
    db.close()

    with pytest.raises(JournalError, match=rf"{file}.*row 2 of table facts.*copy"):
        loaded(file)


def test_a_row_that_is_missing_is_named(file):
    with Store(file, power=False) as store:
        for length in (1, 2, 3):
            written(store, [DatasetRegistered(f"d{length}", (), "")], length)
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM facts WHERE length = 2")
    db.close()

    with pytest.raises(JournalError, match="row 3 of table facts .* removed what stood before it"):
        loaded(file)


def test_a_damaged_page_is_named_and_nothing_is_changed(file):
    with Store(file, power=False) as store:
        for length in range(1, 400):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 40)], length)
    whole = file.read_bytes()
    for place, match in ((8192, "age"), (10, None), (100, None)):
        broken = bytearray(whole)
        broken[place : place + 200] = b"\xff" * 200
        file.write_bytes(broken)

        with pytest.raises(JournalError, match=match) as caught:
            loaded(file)
        assert str(file) in str(caught.value)
        assert file.read_bytes() == broken


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"CREATE TABLE facts", b"CREATE TABLE f\xe5cts"),  # no UTF-8
        (b"jobs", b"jmbs"),
        (b"lines", b"liqes"),
    ],
    ids=["schema", "kind", "table"],
)
def test_a_flipped_bit_in_any_name_is_damage_too(file, was, now):
    parameters = JobParameters("d1", Mode.DYNAMIC, Codec.NONE)
    state = DispatcherState()
    with Store(file, power=False) as store:
        changes = Changes(state)
        for fact in (DatasetRegistered("d1", (), ""), JobCreated("j", parameters, 1, False)):
            state.apply(fact)
            changes.note(fact)
        store.compact(changes.snapshot())
    whole = file.read_bytes()
    assert was in whole
    file.write_bytes(whole.replace(was, now))

    with pytest.raises(JournalError, match="journal.db is damaged"):
        loaded(file)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_file_that_lost_its_end_is_refused(file, part):
    with Store(file, power=False) as store:
        for length in range(1, 400):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 40)], length)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])

    with pytest.raises(JournalError, match="journal.db is damaged"):
        loaded(file)


def test_a_lost_file_beside_its_log_is_refused_and_the_log_kept(file):
    log = file.with_name("journal.db-wal")
    store = Store(file, power=False)
    written(store, [DatasetRegistered("d1", (), "")], 1)
    data = log.read_bytes()
    store.close()
    log.write_bytes(data)
    file.write_bytes(b"")

    with pytest.raises(JournalError, match="journal.db is empty or missing"):
        Store(file, power=False)
    assert log.read_bytes() == data


@pytest.mark.parametrize(("other", "whose"), [(FORMAT + 1, "newer"), (FORMAT - 1, "older")])
def test_another_format_is_refused_by_name_and_left_alone(file, other, whose):
    Store(file, power=False).close()
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA user_version = {other}")
    db.close()
    before = file.read_bytes()

    with pytest.raises(JournalError, match=f"format {other}.*reads {FORMAT}.*the {whose} Penstock"):
        Store(file, power=False)
    assert file.read_bytes() == before


def test_another_file_of_sqlite_is_no_journal(file):
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE notes (x)")
    db.close()

    with pytest.raises(JournalError, match="no journal of Penstock"):
        Store(file, power=False)
    file.write_bytes(b"hello " * 1000)
    with pytest.raises(JournalError, match="not a database"):
        Store(file, power=False)

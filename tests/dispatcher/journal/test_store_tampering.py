"""A journal that somebody changed who has not its key is refused, and the row is named."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from penstock.errors import ConfigError, JournalError
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal.snapshot import Changes
from penstock_dispatcher.journal.store import Store
from penstock_dispatcher.work_dir.folder_key import KEY
from tests.dispatcher.journal.random_facts import loaded, written

COPY = "Restore the folder from a copy"

OTHER_OF_4_AND_5 = "(SELECT body, mac FROM was WHERE was.length = 9 - facts.length)"


def change(file, *statements):
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.create_function("flipped", 2, flipped)
        for statement in statements:
            db.execute(statement)


def flipped(body, place):
    place %= len(body)
    return body[:place] + bytes([body[place] ^ 0x40]) + body[place + 1 :]


def made(file, lines=3, facts=3):
    """Make a journal with a snapshot of so many lines, and so many rows of facts behind it."""
    with Store(file, power=False) as store:
        state = store.load().state
        changes = Changes(state)

        def register(name):
            fact = DatasetRegistered(name, (), "x" * 20)
            state.apply(fact)
            changes.note(fact)
            return fact

        for number in range(lines):
            register(f"line{number}")
        if lines:
            store.compact(changes.snapshot())
        for number in range(facts):
            written(store, [register(f"fact{number}")], state.length)
    return state


def test_a_byte_that_is_changed_in_any_row_is_found_and_the_row_is_named(file):
    made(file)
    whole = file.read_bytes()
    with closing(sqlite3.connect(file)) as db:
        rows = [
            (table, key, row, column, blob)
            for table, key, columns in (
                ("facts", "length", ("body",)),
                ("live", "length", ("body",)),
                ("lines", "rank", ("key", "body")),
            )
            for column in columns
            for row, blob in db.execute(f"SELECT {key}, {column} FROM {table}")
        ]
    assert len(rows) == 3 + 1 + 2 * 3
    for table, key, row, column, blob in rows:
        for place in {0, len(blob) // 2, -1}:
            value = f"flipped({column}, {place})"
            change(file, f"UPDATE {table} SET {column} = {value} WHERE {key} = {row}")

            with pytest.raises(JournalError, match=rf"{file}.*row {row} of table {table}.*{COPY}"):
                loaded(file)
            file.write_bytes(whole)
    assert loaded(file).length == 6


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (  # what two rows say, each with its digest
            [
                "CREATE TEMP TABLE was AS SELECT * FROM facts",
                f"UPDATE facts SET (body, mac) = {OTHER_OF_4_AND_5} WHERE length < 6",
            ],
            "row 4 of table facts",
        ),
        (
            ["UPDATE lines SET rank = -rank WHERE rank < 3", "UPDATE lines SET rank = 3 + rank"],
            "of table lines",
        ),
        (["DELETE FROM facts WHERE length = 5"], "row 6 of table facts"),
        (["DELETE FROM facts WHERE length = 4"], "row 5 of table facts"),
        (["INSERT INTO facts SELECT 7, body, mac FROM facts WHERE length = 6"], "row 7 .* facts"),
        (["DELETE FROM lines WHERE rank = 3"], "table lines is not as it was"),
        (["DELETE FROM live"], "table lines is not as it was"),
        (["DELETE FROM live", "DELETE FROM lines"], "row 4 of table facts"),
        (["UPDATE live SET total = total + 1"], "row 3 of table live"),
        (["UPDATE live SET total = 'x'"], "row 3 of table live"),
        (["INSERT INTO live SELECT 4, body, total, mac FROM live"], "row 4 of table live"),
        (["UPDATE facts SET mac = mac + 1 WHERE length = 5"], "row 5 of table facts"),
        (["UPDATE facts SET mac = 'x' WHERE length = 6"], "row 6 of table facts"),
        (["UPDATE lines SET mac = x'00' WHERE rank = 2"], "row 2 of table lines"),
        (["CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM lines; END"], "its tables are"),
        (["CREATE VIEW v AS SELECT 1"], "its tables are"),
        (["DROP TABLE live", "CREATE VIEW live AS SELECT 1 length, 2 body"], "its tables are"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_row_that_is_moved_removed_or_added_is_found(file, statements, told):
    made(file)
    change(file, *statements)

    with pytest.raises(JournalError, match=f"{file} is damaged: .*{told}.*{COPY}"):
        loaded(file)


def test_a_row_of_another_journal_with_another_key_is_found(file, tmp_path):
    made(file)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "journal.db"
    made(other)
    for table in ("facts", "live", "lines"):
        again = tmp_path / f"again {table}"
        shutil.copytree(tmp_path / "other", again)
        change(
            again / "journal.db",
            f"ATTACH '{file}' AS theirs",
            f"DELETE FROM {table}",
            f"INSERT INTO {table} SELECT * FROM theirs.{table}",
        )

        with pytest.raises(JournalError, match=f"row .* of table {table} .* with the key in {KEY}"):
            loaded(again / "journal.db")


def test_a_line_or_a_snapshot_of_another_time_is_found(file, tmp_path):
    before = tmp_path / "before.db"
    made(file, lines=2, facts=0)
    shutil.copy(file, before)
    with Store(file, power=False) as store:
        read = store.load()
        for fact in (DatasetRegistered("line0", (), "y"), DatasetRegistered("line2", (), "y")):
            read.state.apply(fact)
            read.changes.note(fact)
        store.compact(read.changes.snapshot())
    whole = file.read_bytes()
    attach = f"ATTACH '{before}' AS before"
    was = "(SELECT body, mac FROM before.lines AS was WHERE was.rank = lines.rank)"
    for statements, told in (
        ([f"UPDATE lines SET (body, mac) = {was} WHERE rank = 1"], "as it was"),
        (["DELETE FROM live", "INSERT INTO live SELECT * FROM before.live"], "as it was"),
    ):
        change(file, attach, *statements)

        with pytest.raises(JournalError, match=told):
            loaded(file)
        file.write_bytes(whole)


def test_a_row_that_was_written_before_an_older_copy_was_restored_does_not_come_back(file):
    made(file, lines=0, facts=2)
    older = file.read_bytes()
    with Store(file, power=False) as store:
        for length in (3, 4):
            written(store, [DatasetRegistered(f"then{length}", (), "")], length)
    newer = file.with_name("newer.db")
    file.replace(newer)
    file.write_bytes(older)
    with Store(file, power=False) as store:
        written(store, [DatasetRegistered("now3", (), "")], 3)
    change(
        file,
        f"ATTACH '{newer}' AS newer",
        "INSERT INTO facts SELECT * FROM newer.facts WHERE length = 4",
    )

    with pytest.raises(JournalError, match="row 4 of table facts"):
        loaded(file)


def test_a_journal_whose_key_is_lost_says_so_and_gets_no_other_one(file):
    state = made(file)
    key = file.with_name(KEY)
    kept = key.read_bytes()
    key.unlink()
    before = file.read_bytes()

    with pytest.raises(JournalError, match=rf"{key} is missing, .*{file}.*copy.*begin again"):
        loaded(file)
    assert not key.exists()
    assert file.read_bytes() == before
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    with pytest.raises(JournalError, match=f"with the key in {KEY}.* the key is another folder's"):
        loaded(file)
    key.write_bytes(b"k")
    with pytest.raises(ConfigError, match="has 1 bytes"):
        loaded(file)
    key.write_bytes(kept)
    assert loaded(file) == state
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        loaded(file)


def test_an_empty_journal_is_whole_and_is_written_with_the_key_that_is_there(file):
    Store(file, power=False).close()
    key = file.with_name(KEY).read_bytes()
    assert loaded(file) == DispatcherState()

    file.unlink()
    made(file)

    assert file.with_name(KEY).read_bytes() == key

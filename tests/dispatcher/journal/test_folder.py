"""A work directory is still the one that was opened."""

import pytest

from penstock.errors import JournalError
from penstock_dispatcher.journal.folder import JournalFolder, check_whole


def test_files_that_stay_and_files_that_come_are_no_fault(tmp_path):
    (tmp_path / "journal.db").write_bytes(b"1")
    folder = JournalFolder(tmp_path, [tmp_path / "journal.db", tmp_path / "journal.db-wal"])

    folder.check()
    (tmp_path / "journal.db-wal").write_bytes(b"2")
    folder.check()
    (tmp_path / "journal.db").write_bytes(b"more")
    folder.check()


def test_a_file_that_came_later_is_known_from_then_on(tmp_path):
    folder = JournalFolder(tmp_path, [tmp_path / "a"])
    (tmp_path / "a").write_bytes(b"")
    folder.check()
    (tmp_path / "a").unlink()

    with pytest.raises(JournalError, match="removed"):
        folder.check()


def test_a_file_in_the_place_of_another_is_found(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    folder = JournalFolder(tmp_path, [tmp_path / "a"])
    (tmp_path / "b").rename(tmp_path / "a")

    with pytest.raises(JournalError, match="replaced"):
        folder.check()


def test_definitions_without_a_journal_stop_the_start(tmp_path):
    check_whole(tmp_path)
    (tmp_path / "datasets").mkdir()
    check_whole(tmp_path)
    (tmp_path / "datasets" / ".unfinished").write_bytes(b"1")
    check_whole(tmp_path)
    (tmp_path / "datasets" / "abc").write_bytes(b"1")

    with pytest.raises(JournalError, match="is missing.*1 definition:"):
        check_whole(tmp_path)
    (tmp_path / "journal.db").write_bytes(b"")
    with pytest.raises(JournalError, match="is empty"):
        check_whole(tmp_path)
    (tmp_path / "journal.db").write_bytes(b"1")
    check_whole(tmp_path)

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import DatasetError
from penstock.saved.folder import folder_of


def test_a_file_is_there_whole_once_it_is_written(folder):
    assert folder.read("a/b") is None
    assert folder.entries() == []

    folder.write("a/b", b"one")
    folder.write("a/b", memoryview(b"two"))

    assert folder.read("a/b") == b"two"
    assert folder.names("a") == ["b"]
    assert sorted(folder.entries()) == ["a"]


def test_one_of_many_who_create_a_file_succeeds(folder):
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda i: folder.create("v1", b"%d" % i), range(8)))

    assert made.count(True) == 1
    assert folder.read("v1") == b"%d" % made.index(True)
    assert folder.names("") == ["v1"]


def test_a_file_gets_a_second_name_and_can_be_deleted_twice(folder):
    folder.write("new/x", b"x")
    folder.write("data/0", b"old")

    folder.copy("new/x", "data/0")
    folder.copy("new/x", "data/0")
    assert folder.read("data/0") == b"x"
    assert folder.read("new/x") == b"x"
    assert folder.names("data") == ["0"]

    folder.delete("data/0")
    folder.delete("data/0")
    assert folder.names("data") == []


def test_a_request_whose_answer_was_lost_still_created_the_file(bucket):
    folder = folder_of("save", "s3://data/some")
    bucket.write_fault = lambda number: "lost" if number == 0 else ""

    assert folder.create("v1", b"mine")
    assert not folder.create("v1", b"theirs")


def test_a_store_that_refuses_for_a_while_is_asked_again(bucket):
    folder = folder_of("save", "s3://data/some")
    bucket.write_fault = lambda number: "503" if number < 2 else ""

    folder.write("x", b"x")

    assert folder.read("x") == b"x"


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    folder = folder_of("save", str(tmp_path))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write("data/0", b"x" * 100)

    assert list(Path(tmp_path, "data").iterdir()) == []


def test_a_file_that_was_written_has_a_name_on_the_disk(tmp_path, monkeypatch):
    on_disk = set()

    def noted(descriptor):
        found = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        on_disk.update(found.iterdir() if found.is_dir() else [])

    monkeypatch.setattr(os, "fsync", noted)
    folder = folder_of("save", str(tmp_path / "a" / "b"))
    for call in (
        lambda: folder.write("new/x", b"x"),
        lambda: folder.copy("new/x", "data/0"),
        lambda: folder.create("v1", b"1"),
    ):
        call()

        there = {path for path in tmp_path.rglob("*") if not path.name.endswith(".part")}
        assert there <= on_disk


@pytest.mark.parametrize("path", ["http://host/x", "memory://x", "ftp://host/x"])
def test_a_store_without_atomic_creation_is_refused(path):
    with pytest.raises(
        DatasetError, match=r"can create a file only if there is none: give a local"
    ):
        folder_of("save", path)

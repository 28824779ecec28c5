"""Indexes of files in the user's cache folder."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ops.internal import kept_indexes
from penstock.ops.internal.kept_indexes import KeptFile, KeptIndexes, to_remove

INDEX = np.arange(1000)
SIZE = 8128
"""Bytes of its file."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept_indexes, "MOST_BYTES", 3 * SIZE)
    return tmp_path / "penstock" / "indexes"


def aged(folder, key, seconds):
    os.utime(folder / f"{key}.npy", (1e9 + seconds, 1e9 + seconds))


def test_what_is_kept_is_found_by_its_key(folder):
    KeptIndexes().keep("a", INDEX)

    assert KeptIndexes().get("a").tolist() == INDEX.tolist()
    assert KeptIndexes().get("b") is None
    assert (folder / "a.npy").stat().st_size == SIZE


def test_the_index_that_was_not_read_for_the_longest_time_leaves(folder):
    for i, key in enumerate("abc"):
        KeptIndexes().keep(key, INDEX)
        aged(folder, key, i)
    mapped = KeptIndexes().get("b")
    KeptIndexes().get("a")

    KeptIndexes().keep("d", INDEX)

    assert {file.name for file in folder.iterdir()} == {"a.npy", "b.npy", "d.npy"}

    aged(folder, "b", 0)
    KeptIndexes().keep("e", INDEX)
    assert KeptIndexes().get("b") is None
    assert mapped.tolist() == INDEX.tolist()


def test_a_process_looks_through_the_folder_now_and_then(folder):
    kept = KeptIndexes()
    for i in range(40):
        kept.keep(str(i), INDEX)

    assert len(list(folder.iterdir())) <= 4


def test_what_a_killed_process_left_is_removed(folder):
    folder.mkdir(parents=True)
    for name, seconds in (("old.part", 1e9), ("new.part", None)):
        (folder / name).write_bytes(b"?")
        os.utime(folder / name, seconds and (seconds, seconds))

    KeptIndexes().keep("a", INDEX)

    assert {file.name for file in folder.iterdir()} == {"new.part", "a.npy"}


def test_a_folder_that_cannot_be_written_to_keeps_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    KeptIndexes().keep("a", INDEX)

    assert KeptIndexes().get("a") is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=20), st.integers(0, 60))
def test_as_few_as_needed_leave_and_the_oldest_first(files, most):
    found = [KeptFile(used, nbytes, str(i)) for i, (used, nbytes) in enumerate(files)]

    gone = set(to_remove(found, most))

    left = [file for file in found if file.name not in gone]
    assert sum(file.nbytes for file in left) <= most
    removed = sorted(file for file in found if file.name in gone)
    if removed:
        assert sum(file.nbytes for file in left) + removed[-1].nbytes > most
        assert all(removed[-1] < file for file in left)

import sys
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from penstock import files, stored_file
from penstock.errors import DatasetError, MissingFile
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import SourceSlice


def pattern(*patterns, literal=False):
    return FilePattern(patterns, shuffle=False, seed=None, literal=literal)


def test_names_become_absolute_where_they_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")

    names = files.names("op", "p", ["a", Path("b/../c"), "~/d", "/e", "s3://bucket/../f"])

    assert names == (
        f"{tmp_path}/a",
        f"{tmp_path}/c",
        "/home/somebody/d",
        "/e",
        "s3://bucket/../f",
    )


def test_a_listing_is_sorted_and_has_no_file_twice(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()

    listed = files.listing("op", pattern(f"{tmp_path}/[bc]", f"{tmp_path}/*"))

    assert listed == tuple(f"{tmp_path}/{name}" for name in "abc")


def test_stars_may_go_through_folders_and_links(tmp_path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "a.txt").touch()
    (tmp_path / "b.txt").symlink_to(tmp_path / "x" / "y" / "a.txt")

    listed = files.listing("op", pattern(f"{tmp_path}/**/*.txt", f"{tmp_path}/*.txt"))

    assert listed == (f"{tmp_path}/b.txt", f"{tmp_path}/x/y/a.txt")


def test_files_are_counted_as_far_as_they_are_left(tmp_path):
    for i in range(5):
        (tmp_path / str(i)).touch()
    found = pattern(str(tmp_path / "*"))

    assert files.count(found) == 5
    assert files.count(replace(found, cuts=(SourceSlice(1, None, 2),))) == 2
    assert files.count(pattern("a", "b", literal=True)) == 2


def test_literal_names_stay_as_they_are():
    assert files.listing("op", pattern("/b[1]", "/a", "/b[1]", literal=True)) == (
        "/b[1]",
        "/a",
        "/b[1]",
    )


def test_a_pattern_without_files_is_named(tmp_path):
    with pytest.raises(MissingFile, match="op: no file matches '.*/none\\*'"):
        files.listing("op", pattern(f"{tmp_path}/none*"))


def test_files_in_archives_are_files(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("one.txt", "1\n")
        archive.writestr("two.txt", "2\n")

    listed = files.listing("op", pattern(f"zip://*.txt::file://{tmp_path}/a.zip"))

    contents = []
    for name in listed:
        with stored_file.open_file(name, 100) as file:
            contents.append(file.read())
    assert contents == [b"1\n", b"2\n"]


def test_an_order_depends_on_the_seed_alone():
    names = [f"/f{i}" for i in range(50)]

    orders = {seed: files.shuffled(names, seed) for seed in (-1, 0, 1, 2**64 - 1, -(2**63))}

    assert len(set(orders.values())) == 5
    assert all(sorted(order) == sorted(names) for order in orders.values())
    assert files.shuffled(reversed(names), 1) == orders[1]
    assert files.shuffled(["a", "b", "c", "d"], 7) == ("d", "b", "a", "c")


def test_a_new_file_changes_no_other_file_s_turn():
    names = [f"/f{i}" for i in range(50)]

    more = files.shuffled([*names, "/new"], 3)

    assert [name for name in more if name != "/new"] == list(files.shuffled(names, 3))


def test_a_digest_tells_listings_apart():
    digests = {files.digest(names) for names in [(), ("a",), ("a", "b"), ("ab",), ("b", "a")]}

    assert len(digests) == 5


def test_a_folder_is_refused_where_files_are_wanted(tmp_path):
    with pytest.raises(DatasetError, match=f"op: '{tmp_path}' is a folder: give names or a patt"):
        files.wanted("op", "files", tmp_path)
    for url in ("s3://bucket", "gs://bucket/folder/"):
        with pytest.raises(DatasetError, match=f"op: '{url}' is a folder: give names or a pattern"):
            files.wanted("op", "files", url)


def test_a_url_that_pathlib_has_changed_is_refused_with_the_url():
    with pytest.raises(
        DatasetError, match="op: 's3:/b/f' is a URL .*: give it as text, 's3://b/f'"
    ):
        files.names("op", "files", Path("s3://b/f"))


@pytest.mark.parametrize("name", ["gs://bucket/f", "gs://bucket/f*"])
def test_an_object_store_without_its_package_names_the_extra(monkeypatch, name):
    monkeypatch.setattr("penstock.storage.stores.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    pattern = files.wanted("op", "files", name)

    with pytest.raises(DatasetError, match=r"cannot read 'gs://b.*pip install .penstock\[gcs\]"):
        files.listing("op", pattern)


def test_only_local_files_are_checked(tmp_path):
    (tmp_path / "here").touch()

    files.check_local("op", [str(tmp_path / "here"), "s3://nobody/knows"])
    with pytest.raises(MissingFile, match="op: there is no file '.*/gone': check its name"):
        files.check_local("op", [str(tmp_path / "gone")])


@pytest.mark.parametrize("where", ["local", "memory"])
def test_a_file_is_opened_for_bytes_and_lines(tmp_path, where):
    (tmp_path / "f").write_bytes(b"a\nb\n")
    fsspec.filesystem("memory").pipe("/files/f", b"a\nb\n")
    name = str(tmp_path / "f") if where == "local" else "memory://files/f"

    with stored_file.open_file(name, 1 << 16) as file:
        file.seek(2)
        assert list(file) == [b"b\n"]


@pytest.mark.parametrize("value", [(), [], "", None, 3, b"a", ["a", None], {"a"}])
def test_what_is_no_name_is_named(value):
    with pytest.raises(DatasetError, match="op: p must be a path, or a list of paths"):
        files.names("op", "p", value)

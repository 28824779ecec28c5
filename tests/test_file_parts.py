import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DatasetError
from penstock.file_parts import FilePart, braces, cut, parted, remote_version


@given(st.text(), st.integers(0), st.integers(0), st.text("0123456789.abc-"))
def test_a_part_is_read_from_its_name(name, start, length, version):
    part = FilePart(name, start, start + length, version)

    assert FilePart.of(str(part)) == part


def test_a_plain_name_is_a_whole_file():
    assert FilePart.of("/a/b-1") == FilePart("/a/b-1", 0, None, "")
    assert str(FilePart("/a/b-1")) == "/a/b-1"


@given(st.integers(0, 10**12), st.integers(1 << 20, 1 << 30))
def test_parts_have_all_bytes_once_and_are_about_as_large_as_asked(size, nbytes):
    parts = [FilePart.of(text) for text in cut("f", size, f"{size}.v", nbytes)]

    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == size
    assert all(part.size == size for part in parts)
    if size > nbytes:
        assert all(nbytes / 2 <= part.stop - part.start <= 2 * nbytes for part in parts)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("x", ("x",)),
        ("x-{8..10}", ("x-8", "x-9", "x-10")),
        ("x-{08..10}", ("x-08", "x-09", "x-10")),
        ("x-{3..1}", ("x-3", "x-2", "x-1")),
        ("{a,b}/{0..1}.tar", ("a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar")),
        ("{a}", ("{a}",)),
        ("{a,}", ("a", "")),
        ("{..}", ("{..}",)),
        ("{a,b{1,2}c}.x", ("a.x", "b1c.x", "b2c.x")),
        ("{train-{0..1},val}", ("train-0", "train-1", "val")),
        ("{x{1,2}}", ("{x1}", "{x2}")),
        ("{a,b", ("{a,b",)),
        ("{a{1,2}", ("{a1", "{a2")),
    ],
)
def test_braces_are_expanded_as_a_shell_does(pattern, names):
    assert braces("webdataset", pattern) == names


def test_braces_of_too_many_files_are_refused():
    with pytest.raises(DatasetError, match=r"\{0..99999999\} stands for more than 10,000,000"):
        braces("webdataset", "x{0..99999999}")
    with pytest.raises(DatasetError, match=r"'\{0..9999\}\{0..9999\}' stands for more than 10,0"):
        braces("webdataset", "{0..9999}{0..9999}")


MOMENT = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"size": 3, "ETag": '"abc"'}, "3.abc"),
        ({"size": 3, "mtime": 1.5}, "3.1.5"),
        ({"size": 3, "LastModified": MOMENT}, f"3.{MOMENT.isoformat()}"),
        ({"size": 3, "Last-Modified": "Tue, 02 Jan 2024"}, "3.Tue, 02 Jan 2024"),
        ({"size": 3}, "3."),
        ({"size": None}, ""),
    ],
)  # fmt: skip
def test_the_version_of_a_remote_file_is_its_tag_or_its_size_and_time(info, version):
    assert remote_version(info) == version


def test_remote_files_are_cut_by_the_size_that_the_store_tells(tmp_path):
    found = {"s3://b/x": {"size": 250, "ETag": "e"}, "s3://b/y": {"size": None}}

    names = parted(found.items(), 100, lambda _: None)

    assert [FilePart.of(name) for name in names] == [
        FilePart("s3://b/x", 0, 125, "250.e"),
        FilePart("s3://b/x", 125, 250, "250.e"),
        FilePart("s3://b/y"),
    ]


def test_a_local_file_that_this_process_does_not_see_is_one_part(tmp_path):
    assert parted([(str(tmp_path / "none"), None)], 100, lambda _: None) == (
        str(tmp_path / "none"),
    )


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1234.1500000000", "1,234 bytes, changed 1970-01-01 00:00:01.500 UTC"),
        ("12.d41d8cd9", "12 bytes, version d41d8cd9"),
        ("12.", "12 bytes"),
        ("12.99999999999999999999", "12 bytes, version 99999999999999999999"),
    ],
)
def test_a_version_is_told_in_words(version, told):
    assert FilePart("a", 0, 12, version).told == told
    assert "version 7" in FilePart("s3://b/a", 0, 12, "12.7").told

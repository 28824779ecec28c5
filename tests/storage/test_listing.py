import pytest

from penstock import files
from penstock.errors import DatasetError, MissingFile
from penstock.file_parts import FilePart
from penstock.protocol.splits import FilePattern
from penstock.storage.listing import lists, objects
from tests.storage.stand_in import tag


@pytest.fixture(autouse=True)
def full(bucket):
    for name in ("a-0.x", "a-1.x", "b.x", "deep/a-2.x", "deep/er/a-3.x", "[odd].x"):
        bucket.objects[f"data/train/{name}"] = name.encode()
    bucket.objects["data/other/a-9.x"] = b"?"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("train/a-*.x", ["a-0.x", "a-1.x"]),
        ("train/*/a-?.x", ["deep/a-2.x"]),
        ("train/**/a-*.x", ["a-0.x", "a-1.x", "deep/a-2.x", "deep/er/a-3.x"]),
        ("train/a-[1-9].x", ["a-1.x"]),
        ("tr*/b.x", ["b.x"]),
        ("none/*", []),
    ],
)
def test_a_pattern_finds_objects_with_one_listing(bucket, pattern, names):
    found = objects(f"s3://data/{pattern}")

    assert sorted(found) == [f"s3://data/train/{name}" for name in sorted(names)]
    assert bucket.seen["LIST"] == 1
    for name, info in found.items():
        assert info["e_tag"] == tag(bucket.objects[name.removeprefix("s3://")])


def test_files_are_listed_once_with_their_versions(bucket):
    pattern = FilePattern(
        ("s3://data/train/a-*.x",), shuffle=False, seed=None, literal=False, part_bytes=1 << 20
    )

    parts = [FilePart.of(name) for name in files.listing("op", pattern)]

    assert [part.name for part in parts] == ["s3://data/train/a-0.x", "s3://data/train/a-1.x"]
    assert [part.version for part in parts] == [
        f"5.{tag(name).strip(chr(34))}" for name in (b"a-0.x", b"a-1.x")
    ]
    assert bucket.seen == {"LIST": 1}


def test_a_pattern_without_objects_and_a_bucket_without_permission_are_told(bucket, monkeypatch):
    pattern = FilePattern(("s3://data/z*",), shuffle=False, seed=None, literal=False)

    with pytest.raises(MissingFile, match=r"op: no file matches 's3://data/z\*'"):
        files.listing("op", pattern)

    bucket.refused = True
    with pytest.raises(
        DatasetError, match=r"cannot list the files of 's3://data/z\*': no permission: .*AccessDen"
    ):
        files.listing("op", pattern)


def test_only_object_stores_are_listed():
    assert lists("s3://data/*")
    assert not lists("https://host/*")
    assert not lists("hf://datasets/a/*")

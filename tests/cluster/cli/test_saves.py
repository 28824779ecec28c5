"""`penstock saves`: shows, checks and tidies saved datasets."""

import errno
import importlib
import json
from functools import partial
from pathlib import Path

import msgspec
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import FileChanged, MissingFile, TransformError
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions

pytest.importorskip("pyarrow")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved"
    Dataset.range(1000).map(lambda x: {"x": x, "name": str(x)}).save(path, chunk_bytes=4000)
    return path


@pytest.fixture
def saves(called):
    """Runs ``penstock saves`` in this process."""
    return partial(called, "saves")


def test_a_saved_dataset_is_shown(saved, saves):
    code, out, _ = saves("show", saved)

    assert code == 0
    stage, version, elements = (line.split() for line in out.splitlines()[:3])
    assert (stage, elements) == (["stage", "complete"], ["elements", "1,000"])
    assert "  x: scalars <i8\n  name: text str\n" in out
    assert "map(<lambda>)" in out

    code, out, _ = saves("show", saved, "--json", "--at", version[1])
    assert json.loads(out)["elements"] == 1000 == sum(c["count"] for c in json.loads(out)["chunks"])


def test_the_error_of_a_failed_save_is_shown(tmp_path, saves):
    with pytest.raises(TransformError):
        Dataset.range(3).map(lambda x: 1 // (x - 1)).save(tmp_path / "saved")

    assert "divide by zero" in saves("show", tmp_path / "saved")[1]


def test_damaged_and_missing_chunks_are_named(saved, saves):
    chunks = sorted((saved / "data").iterdir())
    count = len(chunks)
    assert saves("verify", saved)[:2] == (0, f"all {count} chunks are as they were written\n")

    text = bytearray(chunks[0].read_bytes())
    text[300] ^= 1
    chunks[0].write_bytes(text)
    chunks[1].write_bytes(b"short")
    chunks[2].unlink()
    code, _, err = saves("verify", saved)

    assert code == 1
    assert f"{chunks[0]} is damaged" in err
    assert f"{chunks[1]} has 5 bytes instead of" in err
    assert f"{chunks[2]} cannot be read" in err
    assert f"3 of {count} chunks" in err


def test_damaged_and_missing_chunks_are_made_again(tmp_path, saves, monkeypatch):
    (tmp_path / "input_of_test.py").write_text(
        "from penstock import Dataset\n"
        "rows = Dataset.range(1000).map(lambda x: {'x': x, 'name': str(x)})\n"
        "others = rows.take(500)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = importlib.import_module("input_of_test").rows
    saved = tmp_path / "saved"
    rows.save(saved, chunk_bytes=4000)
    before = {file: file.read_bytes() for file in (saved / "data").iterdir()}
    first, second, third = sorted(before)[:3]
    first.write_bytes(before[first][:-1] + b"x")
    second.write_bytes(b"short")
    third.unlink()

    assert "operators differ" in saves("verify", saved, "--repair", "input_of_test:others")[2]
    code, out, err = saves("verify", saved, "--repair", "input_of_test:rows")

    assert (code, out.splitlines()[0]) == (0, "3 chunks were made again")
    assert f"{second} has 5 bytes instead of" in err
    assert {file: file.read_bytes() for file in (saved / "data").iterdir()} == before


def test_what_a_process_that_died_left_is_deleted(saved, saves):
    left = [saved / "_penstock" / "new" / "abc", saved / "data" / "00000999.arrow"]
    for file in left:
        file.write_text("x")

    assert saves("gc", saved, "--dry-run")[1].endswith("2 files would be deleted\n")
    assert all(file.exists() for file in left)
    assert saves("gc", saved)[1].endswith("2 files deleted\n")
    assert not any(file.exists() for file in left)
    assert saves("verify", saved)[0] == 0


def test_a_file_that_cannot_be_deleted_is_an_error(saved, saves, monkeypatch):
    (saved / "data" / "00000999.arrow").write_text("x")

    def refused(self, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refused)
    code, _, err = saves("gc", saved)

    assert code == 2
    assert "00000999.arrow cannot be deleted" in " ".join(err.split())


def test_chunks_of_a_replaced_dataset_are_deleted_an_hour_later(saved, saves, an_hour_later):
    reading = Dataset.load(saved).map(lambda row: int(row["x"]))
    Dataset.range(5).save(saved, overwrite=True)

    assert saves("gc", saved)[1] == "0 files deleted\n"
    assert list(reading) == list(range(1000))

    an_hour_later()
    assert not saves("gc", saved)[1].startswith("0 files")
    assert len(list((saved / "data").iterdir())) == 1
    assert not (saved / "_penstock" / "v00000001.json").exists()
    with pytest.raises(FileChanged, match="has another dataset than when reading began"):
        list(reading)
    assert saves("gc", saved)[1] == "0 files deleted\n"
    assert list(Dataset.load(saved)) == list(range(5))


@pytest.fixture
def caches(tmp_path):
    """A folder of three datasets that can be made again, and of one that cannot."""
    for number, name in enumerate(["old", "middle", "new", "save"]):
        Dataset.range(1000).save(tmp_path / name)
        last = SavedVersions("test", folder_of("test", str(tmp_path / name))).latest().manifest
        cache = msgspec.structs.replace(
            last, is_cache=name != "save", written=last.written - 86_400 * (3 - number)
        )
        (tmp_path / name / last.name).write_bytes(msgspec.json.encode(cache))
    return tmp_path


def test_caches_that_are_too_old_are_removed_and_saves_never(caches, saves, an_hour_later):
    assert saves("gc", caches)[:2] == (0, "0 files deleted\n")

    code, out, _ = saves("gc", caches, "--keep-days", "1.5", "--dry-run")
    assert (code, out.count("in an hour")) == (0, 2)
    assert len(Dataset.load(caches / "old")) == 1000

    reading = Dataset.load(caches / "old")
    assert saves("gc", caches, "--keep-days", "1.5")[1].count("in an hour") == 2
    for name in ("old", "middle"):
        with pytest.raises(MissingFile, match="run the pipeline that made them"):
            Dataset.load(caches / name)
    assert len(list(reading)) == 1000  # it began before

    an_hour_later()
    saves("gc", caches, "--keep-days", "1.5")
    with pytest.raises(FileChanged):
        list(reading)
    Dataset.range(1000).save(caches / "old")
    assert list(Dataset.load(caches / "old")) == list(range(1000))
    assert len(Dataset.load(caches / "save")) == 1000


def test_the_oldest_caches_are_removed_until_the_others_fit(caches, saves):
    nbytes = sum(file.stat().st_size for file in (caches / "new" / "data").iterdir())
    code, out, _ = saves("gc", caches, "--max-bytes", 2 * nbytes)

    assert code == 0
    assert out.startswith(f"{caches / 'old'}: its elements, {nbytes:,} bytes, in an hour\n")
    assert [len(Dataset.load(caches / name)) for name in ("middle", "new", "save")] == [1000] * 3


def test_a_snapshot_that_was_removed_is_made_again(tmp_path, saves, an_hour_later):
    dataset = Dataset.range(1000).map(lambda x: x + 1).snapshot(tmp_path / "snapshots")
    assert list(dataset) == list(range(1, 1001))
    elements = iter(dataset)
    first = [next(elements) for _ in range(10)]

    saves("gc", tmp_path, "--max-bytes", 0)
    an_hour_later()
    assert "1 files deleted" not in saves("gc", tmp_path)[1]
    assert not list(tmp_path.rglob("*.arrow"))

    assert [*first, *elements] == list(range(1, 1001))
    assert list(dataset) == list(range(1, 1001))
    assert list(tmp_path.rglob("*.arrow"))


def test_folders_that_are_no_complete_dataset_are_errors(tmp_path, saves):
    assert "holds no saved dataset" in saves("show", tmp_path)[2]
    assert "holds no saved dataset" in saves("gc", tmp_path)[2]
    with pytest.raises(TransformError):
        Dataset.range(3).map(lambda x: 1 // (x - 1)).save(tmp_path / "saved")
    code, _, err = saves("gc", tmp_path / "saved")

    assert code == 2
    assert "is failed, and may need all files" in " ".join(err.split())

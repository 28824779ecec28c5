"""`penstock saves`: shows, checks and tidies saved datasets."""

import json

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock_cluster.cli.app import main

pytest.importorskip("pyarrow")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved"
    Dataset.range(1000).map(lambda x: {"x": x, "name": str(x)}).save(path, chunk_bytes=4000)
    return path


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs the command in this process."""

    def run(*args):
        monkeypatch.setattr("sys.argv", ["penstock", "saves", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_a_saved_dataset_is_shown(saved, called):
    code, out, _ = called("show", saved)

    assert code == 0
    stage, version, elements = (line.split() for line in out.splitlines()[:3])
    assert (stage, elements) == (["stage", "complete"], ["elements", "1,000"])
    assert "  x: scalars <i8\n  name: text str\n" in out
    assert "map(<lambda>)" in out

    code, out, _ = called("show", saved, "--json", "--at", version[1])
    assert json.loads(out)["elements"] == 1000 == sum(c["count"] for c in json.loads(out)["chunks"])


def test_the_error_of_a_failed_save_is_shown(tmp_path, called):
    with pytest.raises(TransformError):
        Dataset.range(3).map(lambda x: 1 // (x - 1)).save(tmp_path / "saved")

    assert "divide by zero" in called("show", tmp_path / "saved")[1]


def test_damaged_and_missing_chunks_are_named(saved, called):
    chunks = sorted((saved / "data").iterdir())
    count = len(chunks)
    assert called("verify", saved)[:2] == (0, f"all {count} chunks are as they were written\n")

    text = bytearray(chunks[0].read_bytes())
    text[300] ^= 1
    chunks[0].write_bytes(text)
    chunks[1].write_bytes(b"short")
    chunks[2].unlink()
    code, _, err = called("verify", saved)

    assert code == 1
    assert f"{chunks[0]} is damaged" in err
    assert f"{chunks[1]} has 5 bytes instead of" in err
    assert f"{chunks[2]} cannot be read" in err
    assert f"3 of {count} chunks" in err


def test_what_a_process_that_died_left_is_deleted(saved, called):
    left = [saved / "_penstock" / "new" / "abc", saved / "data" / "00000999.arrow"]
    for file in left:
        file.write_text("x")

    assert called("gc", saved, "--dry-run")[1].endswith("2 files would be deleted\n")
    assert all(file.exists() for file in left)
    assert called("gc", saved)[1].endswith("2 files deleted\n")
    assert not any(file.exists() for file in left)
    assert called("verify", saved)[0] == 0


def test_folders_that_are_no_complete_dataset_are_errors(tmp_path, called):
    assert "holds no saved dataset" in called("show", tmp_path)[2]
    with pytest.raises(TransformError):
        Dataset.range(3).map(lambda x: 1 // (x - 1)).save(tmp_path / "saved")
    code, _, err = called("gc", tmp_path / "saved")

    assert code == 2
    assert "is failed, and may need all files" in " ".join(err.split())

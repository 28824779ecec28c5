import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from penstock import stored_file
from penstock.dataset.dataset import Dataset
from penstock.dataset.saving import job_of, options_of_save
from penstock.engine.context import Context
from penstock.errors import (
    DatasetError,
    FileChanged,
    MissingFile,
    SaveIncomplete,
    Superseded,
    TransformError,
    WaitedTooLong,
)
from penstock.ops.follow import Follow
from penstock.saved.folder import folder_of
from tests.ops.conftest import plain
from tests.storage.conftest import bucket
from tests.waiting import wait_until

__all__ = ["bucket"]

pytest.importorskip("pyarrow")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved"


def numbers(dataset):
    return [int(x) for x in dataset]


def chunks(path):
    return sorted(file.name for file in (path / "data").iterdir())


def test_a_loaded_dataset_has_the_elements_that_were_saved(path, plain):
    dataset = Dataset.range(500).map(
        lambda x: {"x": x, "pair": (str(x), np.arange(x % 3)), "image": np.full((2, x % 4), x)}
    )
    dataset.save(path, chunk_bytes=5000)
    loaded = Dataset.load(path)

    assert list(map(plain, loaded)) == list(map(plain, dataset))
    assert loaded.cardinality() == 500
    assert len(chunks(path)) > 3


def test_compression_and_no_compression_give_the_same(path, tmp_path):
    dataset = Dataset.range(300).batch(7)
    for compression in ("lz4", None):
        dataset.save(tmp_path / str(compression), compression=compression)

        assert numbers(Dataset.load(tmp_path / str(compression)).unbatch()) == list(range(300))


def test_an_empty_dataset_can_be_saved(path):
    Dataset.range(0).save(path)

    assert list(Dataset.load(path)) == []
    assert list(Dataset.load(path, wait=True)) == []


def test_a_loaded_dataset_has_an_index(path):
    Dataset.range(1000).save(path, chunk_bytes=800)
    loaded = Dataset.load(path)
    shuffled = numbers(loaded.global_shuffle(seed=1))

    assert sorted(shuffled) == list(range(1000)) != shuffled
    assert numbers(loaded.shard(3, 1)) == list(range(1, 1000, 3))


def test_a_shuffled_load_takes_its_index_from_the_manifest(path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Dataset.range(100).save(path, chunk_bytes=80)

    assert sorted(numbers(Dataset.load(path).global_shuffle(seed=1))) == list(range(100))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "made",
    [
        lambda i: (i, str(i), np.float32(i)),
        lambda i: (i, {"text": b"b" * int(i), "even": np.bool_(i % 2 == 0)}),
        lambda i: (i, np.full((2, 3), i)),
        lambda i: (i, np.arange(i % 5), np.ones((1, i % 3, 2))),
        lambda i: (i, np.datetime64(int(i), "s"), np.full(3000, i)),
    ],
    ids=["flat", "nested", "equal arrays", "ragged", "large"],
)
def test_a_shuffled_load_has_each_element_whole(path, made):
    dataset = Dataset.range(60).map(made)
    dataset.save(path, chunk_bytes=2000)
    wanted = [plain(element) for element in dataset]
    found = [plain(element) for element in Dataset.load(path).global_shuffle(seed=1)]

    assert found != wanted
    assert sorted(found, key=lambda element: int(element[1][1])) == wanted


def test_states_of_a_loaded_dataset_are_exact(path, check_states):
    Dataset.range(40).save(path, chunk_bytes=80)

    check_states(lambda: Dataset.load(path), list(range(40)))
    check_states(lambda: Dataset.load(path, wait=True), list(range(40)))


def test_the_receipts_of_written_elements_have_exact_states(path, check_states):
    from penstock.ops.write_chunks import WriteChunks

    def bad(x):
        if x == 7:
            raise ValueError("seven")
        return x

    def rows():
        node = WriteChunks(Dataset.range(23).map(bad).node, str(path), None, 40, 60.0)
        return Dataset(node).map(lambda chunk, row, told: np.int64(0))

    outcomes = check_states(rows)

    assert len(outcomes) == 23
    assert [at for at, one in enumerate(outcomes) if "seven" in str(one)] == [7]


def test_a_saved_dataset_is_not_saved_again(path, tmp_path):
    calls = tmp_path / "calls"

    def noted(x):
        with calls.open("a") as file:
            file.write(f"{x} ")
        return x

    for _ in range(2):
        Dataset.range(10).map(noted).save(path)

    assert calls.read_text().split() == list(map(str, range(10)))


def test_the_same_call_deletes_what_a_crash_left_after_the_last_commit(path):
    Dataset.range(10).save(path)
    left = path / "_penstock" / "new" / "abc"
    left.write_text("x")

    Dataset.range(10).save(path)

    assert not left.exists()
    assert numbers(Dataset.load(path)) == list(range(10))


def test_another_dataset_replaces_it_only_if_that_is_wanted(path):
    Dataset.range(10).save(path)
    with pytest.raises(DatasetError, match=r"has another dataset: range: stop is 10 in one and 9"):
        Dataset.range(9).save(path)
    with pytest.raises(
        DatasetError, match=r"its compression is 'zstd', and not None; give another"
    ):
        Dataset.range(10).save(path, compression=None)

    Dataset.range(9).save(path, overwrite=True)

    assert numbers(Dataset.load(path)) == list(range(9))


def test_a_folder_with_other_files_is_left_alone(path):
    path.mkdir()
    (path / "mine").write_text("x")

    for overwrite in (False, True):
        with pytest.raises(DatasetError, match="holds files that are no saved dataset"):
            Dataset.range(9).save(path, overwrite=overwrite)
    assert [file.name for file in path.iterdir()] == ["mine"]


def test_a_save_goes_on_behind_the_element_that_failed(path, tmp_path):
    flag = tmp_path / "mended"

    def fragile(x):
        if x == 50 and not flag.exists():
            raise ValueError("no fifty")
        return x

    dataset = Dataset.range(100).map(fragile)
    with pytest.raises(TransformError, match="no fifty"):
        dataset.save(path, chunk_bytes=80)
    with pytest.raises(SaveIncomplete, match=r"failed after \d+ elements: TransformError: .*fifty"):
        Dataset.load(path)
    version = Dataset.load(path, at=1)
    flag.touch()

    dataset.save(path, chunk_bytes=80)

    assert numbers(Dataset.load(path)) == list(range(100))
    assert numbers(version) == []


def test_a_reader_that_follows_gets_all_that_a_failed_save_committed_and_then_its_error(path):
    def bad(x):
        time.sleep(0.001)
        if x == 200:
            raise ValueError("no more")
        return x

    with pytest.raises(TransformError, match="no more"):
        Dataset.range(300).map(bad).save(path, chunk_bytes=80)
    seen = []

    with pytest.raises(
        SaveIncomplete, match=r"failed after \d+ elements: TransformError: .*no more"
    ):
        seen.extend(map(int, Dataset.load(path, wait=True)))

    assert seen == list(range(_elements(path)))
    assert len(seen) > 10


def test_a_save_that_is_cancelled_before_it_begins_makes_nothing(path):
    calls = path.with_name("calls")

    def noted(x):
        calls.touch()
        return x

    options = options_of_save("arrow", None, 80)
    job = job_of(Dataset.range(600).map(noted), path, options, 10.0, overwrite=False)
    job.cancel()
    job.run()

    assert job.manifest().stage == "cancelled"
    assert not calls.exists()


def test_one_that_another_process_continues_stops(path):
    dataset = Dataset.range(100)
    options = options_of_save("arrow", None, 80)
    one, other = (job_of(dataset, path, options, 10.0, overwrite=False) for _ in range(2))
    other.run()

    with pytest.raises(Superseded, match="another process writes"):
        one.run()
    assert numbers(Dataset.load(path)) == list(range(100))


def test_a_reader_follows_a_save_to_its_end(path):
    may_go_on = threading.Event()

    def gated(x):
        if x == 20:
            may_go_on.wait(60)
        return x

    dataset = Dataset.range(40).map(gated)
    writer = threading.Thread(target=lambda: dataset.save(path, chunk_bytes=80))
    followed = iter(Dataset.load(path, wait=True, timeout=60))
    writer.start()
    seen = [int(next(followed)) for _ in range(10)]
    with pytest.raises(SaveIncomplete, match=r"has not ended: it has \d+ elements. wait=True"):
        Dataset.load(path)
    may_go_on.set()
    seen += numbers(followed)
    writer.join()

    assert seen == list(range(40))


def test_a_reader_that_follows_waits_no_longer_than_it_may(path):
    with pytest.raises(WaitedTooLong, match=r"no saved dataset that was written to .* see whether"):
        list(Dataset.load(path, wait=True, timeout=0.1))
    with pytest.raises(MissingFile, match="holds no saved dataset: see its path, or wait=True"):
        Dataset.load(path)


@pytest.mark.slow
def test_a_reader_that_follows_waits_for_a_far_element_while_others_are_written(path):
    def slow(x):
        time.sleep(0.02)
        return x

    dataset = Dataset.range(300).map(slow)
    saving = threading.Thread(target=dataset.save, args=(path,), kwargs={"chunk_bytes": 8})
    saving.start()

    follower = Follow(str(path), timeout=2.0).open(Context.local(0), None)
    assert follower.fetch(np.array([299])) == ([299], None)
    saving.join()


def test_a_cancelled_save_can_be_read_and_continued(path):
    def slow(x):
        time.sleep(0.001)
        return x

    dataset, options = Dataset.range(600).map(slow), options_of_save("arrow", None, 80)
    job = job_of(dataset, path, options, 10.0, overwrite=False)
    saving = threading.Thread(target=job.run)
    saving.start()
    wait_until(lambda: job.manifest().elements)
    job.cancel()
    saving.join()
    there = job.manifest()
    with pytest.raises(SaveIncomplete, match=rf"was cancelled after {there.elements} elements"):
        Dataset.load(path)

    assert numbers(Dataset.load(path, at=there.version)) == list(range(there.elements))
    assert there.stage == "cancelled"
    job_of(dataset, path, options, 10.0, overwrite=False).run()
    assert numbers(Dataset.load(path)) == list(range(600))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_damage_is_named(path, compression):
    Dataset.range(3000).save(path, chunk_bytes=8000, compression=compression)
    (file,) = (path / "data").glob("00000001-*.arrow")
    loaded = Dataset.load(path)
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes(text)

    with pytest.raises(TransformError, match=r"bytes \d+ to .* are damaged: their checksum is not"):
        list(Dataset.load(path))
    with pytest.raises(TransformError, match=r"00000001-\w+.arrow.* are damaged"):
        list(Dataset.load(path).global_shuffle(seed=1))
    assert loaded.cardinality() == 3000


SAVE = """
import sys, time
from penstock import Dataset

def slow(x):
    time.sleep(0.001)
    return {"x": x}

Dataset.range(1000).map(slow).save(sys.argv[1], chunk_bytes=160)
"""


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on(path, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SAVE)
    command = [sys.executable, str(script), str(path)]
    kept = 0
    for _ in range(2):
        process = subprocess.Popen(command)
        wait_until(lambda: _elements(path) > kept, 60)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kept = _elements(path)
    subprocess.run(command, check=True)
    loaded = Dataset.load(path)

    assert [int(e["x"]) for e in loaded] == list(range(1000))
    assert list((path / "_penstock" / "new").iterdir()) == []
    names = {Path(name).name for name in loaded.node.files}
    assert set(chunks(path)) == names


def _elements(path):
    from penstock.saved.manifest import SavedVersions

    found = SavedVersions("load", folder_of("load", str(path))).latest()
    return found.manifest.elements if found else 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"format": "csv"},
            "format must be 'arrow' or 'parquet' or 'tfrecord' or 'webdataset' or 'mds', not 'csv'",
        ),
        (
            {"compression": "gzip"},
            "compression of 'arrow' must be 'auto' or 'zstd' or 'lz4' or None, not 'gzip'",
        ),
        ({"chunk_bytes": 0}, "chunk_bytes must be an integer of at least 1, not 0"),
        ({"chunk_seconds": 0}, "chunk_seconds must be a positive number of seconds, not 0"),
        ({"path": 7}, "path must be a folder, not 7"),
    ],
)
def test_malformed_arguments_are_named(tmp_path, arguments, text):
    with pytest.raises(DatasetError, match=f"save: {text}"):
        Dataset.range(3).save(**{"path": tmp_path / "x", **arguments})
    assert not (tmp_path / "x").exists()


def test_a_store_without_conditional_writes_is_refused_at_the_start(bucket):
    bucket.overwrites = True

    with pytest.raises(DatasetError, match="ignores If-None-Match, so two processes could write"):
        Dataset.range(9).save("s3://data/saved")
    assert bucket.objects == {}


def test_an_infinite_dataset_is_refused(path):
    with pytest.raises(DatasetError, match=r"is infinite: take a part of it, as take\("):
        Dataset.counter().save(path)


def test_others_read_what_was_saved(path):
    dataset = pytest.importorskip("pyarrow.dataset")
    Dataset.range(100).map(lambda x: {"x": x, "text": str(x)}).save(path, chunk_bytes=200)

    table = dataset.dataset(path / "data", format="arrow").to_table()

    assert table.to_pylist() == [{"x": x, "text": str(x)} for x in range(100)]
    assert json.loads((path / "_penstock" / "v00000001.json").read_text())["version"] == 1


def test_a_folder_that_is_saved_anew_is_read_anew(path):
    Dataset.range(300).save(path)
    old = Dataset.load(path)
    assert numbers(old) == list(range(300))
    shutil.rmtree(path)
    Dataset.range(20).save(path)

    assert numbers(Dataset.load(path)) == list(range(20))
    assert Dataset.load(path).cardinality() == 20
    with pytest.raises(FileChanged, match="has another dataset than when reading began"):
        list(old)


def test_a_reader_that_follows_has_an_hour_after_another_dataset_replaces_the_one_it_reads(
    path, an_hour_later
):
    Dataset.range(300).save(path, chunk_bytes=80)
    readers = [iter(Dataset.load(path, wait=True, timeout=60)) for _ in range(2)]
    seen = [[int(next(reader)) for _ in range(15)] for reader in readers]
    state = readers[0].state()
    Dataset.range(1000, 1300).save(path, chunk_bytes=80, overwrite=True)

    assert seen[0] + numbers(readers[0]) == list(range(300))
    an_hour_later()
    Dataset.range(1000, 1300).save(path, chunk_bytes=80)
    with pytest.raises(FileChanged, match="has another dataset than when reading began"):
        seen[1] += numbers(readers[1])
    assert seen[1] == list(range(len(seen[1])))
    with pytest.raises(FileChanged, match="has another dataset than when reading began"):
        next(Dataset.load(path, wait=True, timeout=60).iterator(state))


def test_a_dataset_can_be_read_while_another_one_is_written_over_it(path):
    Dataset.range(300).save(path, chunk_bytes=80)
    loaded, read = Dataset.load(path), []

    def reads(x):
        if x == 40:
            read.extend(numbers(loaded))
        return x

    Dataset.range(50).map(reads).save(path, chunk_bytes=80, overwrite=True)
    with pytest.raises(MissingFile, match=r"replaced version 2 of .*: leave out at="):
        Dataset.load(path, at=2)

    assert read == list(range(300))
    assert numbers(Dataset.load(path)) == list(range(50))


def test_a_reader_may_begin_to_follow_as_soon_as_a_failed_save_is_continued(path, tmp_path):
    flag = tmp_path / "mended"

    def fragile(x):
        if x == 50 and not flag.exists():
            raise ValueError("no fifty")
        return x

    dataset, options = Dataset.range(100).map(fragile), options_of_save("arrow", "zstd", 80)
    with pytest.raises(TransformError, match="no fifty"):
        dataset.save(path, chunk_bytes=80)
    flag.touch()
    job = job_of(dataset, path, options, 10.0, overwrite=False)
    followed = iter(Dataset.load(path, wait=True, timeout=60))
    next(followed)
    job.run()

    assert numbers(followed) == list(range(1, 100))


def test_bytes_that_arrived_damaged_once_are_fetched_again(bucket, monkeypatch):
    Dataset.range(100).save("s3://data/saved")
    open_part, opened = stored_file.open_part, []

    def damaged_at_first(*args, **kwargs):
        file = open_part(*args, **kwargs)
        opened.append(file)
        if len(opened) > 1:
            return file
        text = bytearray(file.read())
        text[250] ^= 1
        return io.BytesIO(text)

    monkeypatch.setattr(stored_file, "open_part", damaged_at_first)

    assert numbers(Dataset.load("s3://data/saved")) == list(range(100))
    assert len(opened) == 2


def test_damage_is_named_to_a_reader_that_follows_and_it_goes_on_with_the_next_chunk(path):
    Dataset.range(30).save(path, chunk_bytes=80, compression=None)
    (file,) = (path / "data").glob("00000001-*.arrow")
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes(text)
    followed = Dataset.load(path, wait=True)

    with pytest.raises(TransformError, match=r"00000001-\w+.arrow.* are damaged"):
        list(followed)
    assert numbers(followed.ignore_errors()) == [*range(10), *range(20, 30)]


@pytest.mark.parametrize("nbytes", [0, 300, 3 << 20])
def test_a_chunk_that_lost_its_end_is_an_error_and_not_the_end(path, nbytes):
    Dataset.range(10).map(lambda x: np.full(1 << 20, x, np.uint8)).save(path, compression=None)
    (file,) = (path / "data").iterdir()
    os.truncate(file, nbytes)

    with pytest.raises(TransformError, match=rf"has {nbytes:,} bytes instead of"):
        list(Dataset.load(path))
    with pytest.raises(TransformError, match="are damaged|out of bounds"):
        list(Dataset.load(path, wait=True))
    with pytest.raises(TransformError):
        list(Dataset.load(path).global_shuffle(seed=1))


def test_a_folder_that_cannot_be_read_is_named(path, monkeypatch):
    Dataset.range(3).save(path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DatasetError, match=r"v00000003.json cannot be read .*denied"):
        Dataset.load(path)

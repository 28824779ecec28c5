"""Files in parts on a real mesh: shared by workers, in order, resumed, and never two versions."""

from __future__ import annotations

import io
import tarfile
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import FileChanged, MissingFile

COUNT = 2000


@pytest.fixture
def rows(tmp_path):
    table = pa.table({"n": np.arange(COUNT), "text": [f"row {n}" for n in range(COUNT)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=100)
    return parted(Dataset.parquet(tmp_path / "f.parquet"), 2000)


def parted(dataset, nbytes):
    """Return *dataset*, a source, with parts of about *nbytes*."""
    node = dataset.node
    return Dataset(replace(node, pattern=replace(node.pattern, part_bytes=nbytes)))


def lines(path, numbers):
    path.write_text("".join(f'{{"n": {n}}}\n' for n in numbers))
    return parted(Dataset.json_lines(path), 1000)


def test_one_large_file_has_several_workers(cluster, rows):
    far = rows.batch(64).distribute("distributed_epoch", cluster.target)
    with far.iterator() as batches:
        numbers = np.concatenate([batch["n"] for batch in batches])

    assert Counter(numbers.tolist()) == Counter(range(COUNT))
    assert numbers.tolist() != list(range(COUNT))


def test_one_order_is_that_of_the_file(cluster, rows):
    far = rows.distribute("distributed_epoch", cluster.target, ordered=True)

    assert [int(row["n"]) for row in far] == list(range(COUNT))


def test_a_saved_pass_continues_at_the_element(cluster, tmp_path):
    far = lines(tmp_path / "f", range(COUNT)).distribute("distributed_epoch", cluster.target)
    with far.iterator() as elements:
        before = [int(next(elements)["n"]) for _ in range(700)]
        state = elements.state()

    after = [int(element["n"]) for element in far.iterator(state)]

    assert Counter(before + after) == Counter(range(COUNT))


def test_a_file_that_is_replaced_in_mid_run_ends_the_pass_with_its_name(cluster, tmp_path):
    gate = tmp_path / "gate"

    def waits(element):
        while not gate.exists():
            time.sleep(0.01)
        return element

    far = lines(tmp_path / "f", range(COUNT)).map(waits)
    with far.distribute("distributed_epoch", cluster.target).iterator() as elements:
        lines(tmp_path / "f", range(COUNT, 2 * COUNT))
        gate.touch()

        with pytest.raises(FileChanged, match=f"{tmp_path}/f was changed since it was listed"):
            for element in elements:
                assert int(element["n"]) < COUNT


def test_a_pattern_that_matches_nothing_is_refused_where_the_pass_begins(cluster, tmp_path):
    far = Dataset.json_lines(f"{tmp_path}/*.jsonl").distribute("distributed_epoch", cluster.target)

    with pytest.raises(MissingFile, match="no file matches"):
        iter(far)


def test_files_are_shuffled_whole_by_several_workers(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shuffled = lines(tmp_path / "f", range(COUNT)).global_shuffle(seed=3)
    wanted = [int(element["n"]) for element in shuffled]

    far = shuffled.distribute("distributed_epoch", cluster.target, ordered=True)
    with far.iterator() as elements:
        before = [int(next(elements)["n"]) for _ in range(700)]
        state = elements.state()
    after = [int(element["n"]) for element in far.iterator(state)]

    assert before + after == wanted != list(range(COUNT))


def test_references_travel_and_are_read_by_the_loop(cluster, tmp_path):
    with tarfile.open(tmp_path / "f.tar", "w") as tar:
        for n in range(50):
            info = tarfile.TarInfo(f"{n}.bin")
            info.size = n * 100
            tar.addfile(info, io.BytesIO(bytes([n]) * info.size))
    samples = Dataset.webdataset(tmp_path / "f.tar", lazy=True).shuffle(50).batch(7)

    far = samples.distribute("distributed_epoch", cluster.target)
    found = [data for batch in far for data in batch["bin"].read()]

    assert sorted(found) == [bytes([n]) * (n * 100) for n in range(50)]

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.saved import mds_file
from penstock.saved.layout import SavedLayout
from penstock.saved.mds_file import MdsFormat
from tests.ops.conftest import plain
from tests.saved.test_chunk_format import sample, written

pytest.importorskip("pyarrow")


def test_the_source_of_shards_reads_what_was_saved(tmp_path):
    dataset = Dataset.range(200).map(sample)
    dataset.save(tmp_path / "saved", format="mds", chunk_bytes=2000)

    assert list(map(plain, Dataset.mds(tmp_path / "saved/data"))) == list(map(plain, dataset))


def test_the_index_is_that_of_the_newest_dataset(tmp_path):
    path = tmp_path / "saved"
    for count in (200, 3):
        Dataset.range(count).map(sample).save(path, format="mds", chunk_bytes=2000, overwrite=True)
    (path / "data/index.json").unlink()
    Dataset.range(3).map(sample).save(path, format="mds", chunk_bytes=2000)

    assert len(list(Dataset.mds(path / "data"))) == 3


@pytest.mark.parametrize("value", [np.complex64(1), np.array(["x"], object), np.datetime64(7, "s")])
def test_values_that_a_shard_cannot_hold_are_refused(value):
    with pytest.raises(DatasetError, match="the format 'mds' cannot hold 'b', which is"):
        MdsFormat().check(SavedLayout.of({"a": "", "b": value}))


def test_a_shard_of_4_gib_is_refused(monkeypatch):
    monkeypatch.setattr(mds_file, "_MOST", 10_000)

    with pytest.raises(DatasetError, match="less than 4 GiB: give a smaller chunk_bytes"):
        written(MdsFormat(), [b"x" * 6000] * 2)

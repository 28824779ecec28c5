import numpy as np
import pytest

from penstock.errors import DatasetError
from penstock.saved.layout import SavedLayout
from penstock.saved.parquet_file import ParquetFormat
from tests.saved.test_chunk_format import sample, written

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq


def test_others_read_numbers_text_and_lists_as_such():
    data, contents = written(ParquetFormat(), [sample(i) for i in range(70_000)])
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)

    assert file.schema_arrow.names == ["x", "text", "tokens"]
    assert file.read().slice(3, 1).to_pylist() == [{"x": 3, "text": "aaa", "tokens": [0, 1, 2]}]
    assert file.num_row_groups == len(contents.groups) - 1 > 1


def test_pixels_take_no_more_bytes_than_they_have():
    image = np.random.default_rng(0).integers(0, 256, (100, 100, 3)).astype(np.uint8)
    data, _ = written(ParquetFormat(), [{"image": image}] * 50)

    assert data.size < 1.1 * 50 * image.nbytes


def test_seconds_are_refused_before_anything_is_written():
    layout = SavedLayout.of({"at": np.datetime64(7, "s"), "x": np.int64(1)})

    with pytest.raises(DatasetError, match=r"cannot hold 'at', which is datetime64\[s\]"):
        ParquetFormat().check(layout)

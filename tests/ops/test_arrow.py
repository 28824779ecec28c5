import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_files_are_read_as_pyarrow_reads_them(tmp_path, compression):
    table = pa.table(
        {"n": range(50), "t": [f"{n}" for n in range(50)], "v": [[n] * 3 for n in range(50)]}
    )
    feather.write_feather(table, str(tmp_path / "f"), compression=compression, chunksize=8)

    got = list(Dataset.arrow(tmp_path / "f"))

    assert [(int(e["n"]), e["t"], e["v"].tolist()) for e in got] == [
        (row["n"], row["t"], row["v"]) for row in table.to_pylist()
    ]


def test_columns_are_chosen_in_their_order(tmp_path):
    feather.write_feather(pa.table({"a": [1], "b": [2], "c": [3]}), str(tmp_path / "f"))

    (row,) = Dataset.arrow(tmp_path / "f", ["c", "a"])

    assert list(row.items()) == [("c", 3), ("a", 1)]
    with pytest.raises(DatasetError, match="has no column 'x'; its columns are a, b, c"):
        list(Dataset.arrow(tmp_path / "f", ["x"]))


def test_numbers_are_views_of_the_mapped_file(tmp_path):
    table = pa.table({"n": np.arange(1000)})
    feather.write_feather(table, str(tmp_path / "f"), compression="uncompressed")

    (batch,) = Dataset.arrow(tmp_path / "f").batch(1000)

    assert batch["n"].tolist() == list(range(1000))
    assert batch["n"].flags.writeable


def test_a_missing_value_is_named(tmp_path):
    feather.write_feather(pa.table({"x": [1, None]}), str(tmp_path / "f"))

    with pytest.raises(TransformError, match="column 'x' has no value in row 1"):
        list(Dataset.arrow(tmp_path / "f"))
    assert [int(e["x"]) for e in Dataset.arrow(tmp_path / "f", nulls={"x": 7})] == [1, 7]

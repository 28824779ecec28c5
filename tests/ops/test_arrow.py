import decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
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


def test_files_whose_columns_differ_are_refused_with_the_difference(tmp_path):
    feather.write_feather(pa.table({"n": [1]}), str(tmp_path / "a"))
    feather.write_feather(pa.table({"m": [1]}), str(tmp_path / "b"))

    with pytest.raises(DatasetError, match=r"arrow: .*/a has a column 'n', and .*/b has none"):
        list(Dataset.arrow(tmp_path / "*"))
    with pytest.raises(DatasetError, match=r"nulls=.*has no column 'k'; its columns are n"):
        list(Dataset.arrow(tmp_path / "a", nulls={"k": 0}))


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


@pytest.mark.parametrize("make", [Dataset.arrow, Dataset.parquet])
class TestBothFormats:
    def write(self, make, path, table):
        if make == Dataset.parquet:
            pq.write_table(table, path, row_group_size=8)
        else:
            feather.write_feather(table, str(path), chunksize=8)

    def test_only_the_row_with_a_missing_value_is_left_out(self, make, tmp_path, check_states):
        numbers = [None if n in (0, 3, 4, 15, 19) else n for n in range(20)]
        self.write(make, tmp_path / "f", pa.table({"n": numbers}))

        whole = check_states(lambda: make(tmp_path / "f").ignore_errors(), blocks=(1, 3, 64))
        check_states(lambda: make(tmp_path / "f"), blocks=(1, 3, 64))

        assert len(whole) == 15
        got = [int(e["n"]) for e in make(tmp_path / "f").ignore_errors()]
        assert got == [n for n in numbers if n is not None]

    def test_a_value_missing_in_a_list_is_named_by_its_column(self, make, tmp_path):
        self.write(make, tmp_path / "f", pa.table({"v": [[1], [1, None], [2, 3]]}))

        with pytest.raises(TransformError, match="in column 'v', an element cannot hold None"):
            list(make(tmp_path / "f"))
        assert len(list(make(tmp_path / "f").ignore_errors())) == 2

    def test_moments_keep_their_nanoseconds(self, make, tmp_path):
        columns = {
            "t": pa.array([1234567891], pa.timestamp("ns", tz="Europe/Paris")),
            "d": pa.array([1234567891], pa.duration("ns")),
            "m": pa.array([1234567891], pa.time64("ns")),
            "s": pa.array([12], pa.time32("s")),
        }
        with pa.ipc.new_file(str(tmp_path / "f"), pa.table(columns).schema) as file:
            file.write_table(pa.table(columns))
        if make == Dataset.parquet:
            pq.write_table(pa.table(columns), tmp_path / "f")

        (row,) = make(tmp_path / "f")

        assert row["t"] == np.datetime64(1234567891, "ns")
        assert row["d"] == row["m"] == np.timedelta64(1234567891, "ns")
        assert row["s"] == np.timedelta64(12, "s")

    def test_decimals_in_lists_are_floats_as_those_in_columns(self, make, tmp_path):
        self.write(make, tmp_path / "f", pa.table({"v": [[decimal.Decimal("1.5")]]}))

        (row,) = make(tmp_path / "f")

        assert row["v"] == (1.5,)

    def test_no_columns_are_refused_and_two_of_one_name_too(self, make, tmp_path):
        self.write(make, tmp_path / "f", pa.table({"n": [1], "m": [2]}))
        with pytest.raises(DatasetError, match="columns must name a column"):
            make(tmp_path / "f", columns=[])
        assert list(make(tmp_path / "f", columns=["n", "n"])) == [{"n": 1}]

        twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
        if make == Dataset.parquet:
            pq.write_table(twice, tmp_path / "f")
        else:
            with pa.ipc.new_file(str(tmp_path / "f"), twice.schema) as file:
                file.write_table(twice)
        with pytest.raises(DatasetError, match="has several columns named 'a'"):
            list(make(tmp_path / "f"))

    def test_a_replacement_of_another_type_is_refused(self, make, tmp_path):
        self.write(make, tmp_path / "f", pa.table({"n": [1, None]}))

        with pytest.raises(DatasetError, match=r"nulls=\{'n': 'x'\}: this cannot be put into"):
            list(make(tmp_path / "f", nulls={"n": "x"}))


def test_a_missing_value_is_named_by_its_row_in_the_file(tmp_path):
    values = pa.array([None if n == 47 else n for n in range(60)])
    feather.write_feather(pa.table({"n": values}), str(tmp_path / "f"), chunksize=20)

    with pytest.raises(TransformError, match=r"column 'n' has no value in row 47: .*batch 2"):
        list(Dataset.arrow(tmp_path / "f"))

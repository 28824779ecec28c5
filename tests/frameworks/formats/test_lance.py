"""Lance datasets: written by Lance, and read as Lance reads them."""

import os
import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, FileChanged, MissingFile, TransformError

pytestmark = pytest.mark.filterwarnings("ignore:lance is not fork-safe")


def write(folder, table, **options):
    return lance.write_dataset(table, str(folder), **options)


def rows(count, first=0):
    numbers = range(first, first + count)
    return pa.table(
        {
            "n": numbers,
            "text": [f"{n}" for n in numbers],
            "vector": pa.array([[n, n / 2] for n in numbers], pa.list_(pa.float32(), 2)),
            "nest": [{"x": n, "y": [n] * (n % 3)} for n in numbers],
        }
    )


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "a.lance", rows(1000), max_rows_per_file=300)
    return tmp_path / "a.lance"


def numbers(dataset):
    return [int(row["n"]) for row in dataset]


def test_rows_are_those_that_lance_reads(folder):
    lance.dataset(str(folder)).delete("n % 7 = 3")
    wanted = lance.dataset(str(folder)).to_table().to_pylist()

    got = list(Dataset.lance(folder))

    assert Dataset.lance(folder).cardinality() == len(wanted) < 1000
    assert [
        {
            "n": int(row["n"]),
            "text": row["text"],
            "vector": row["vector"].tolist(),
            "nest": {"x": int(row["nest"]["x"]), "y": row["nest"]["y"].tolist()},
        }
        for row in got
    ] == wanted


@given(
    files=st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=30), min_size=1, max_size=4),
    gone=st.integers(-9, 9),
    batch=st.integers(1, 20),
)
@settings(max_examples=25, deadline=None)
def test_any_rows_are_those_that_lance_reads(tmp_path_factory, files, gone, batch):
    folder = tmp_path_factory.mktemp("t") / "f.lance"
    for values in files:
        write(folder, pa.table({"n": pa.array(values, pa.int32())}), mode="append")
    table = lance.dataset(str(folder))
    table.delete(f"n = {gone}")
    wanted = table.to_table()["n"].to_pylist()

    got = list(Dataset.lance(folder).batch(batch))

    assert [n for each in got for n in each["n"].tolist()] == wanted
    assert {each["n"].dtype for each in got} <= {np.dtype(np.int32)}
    assert sorted(numbers(Dataset.lance(folder).global_shuffle(seed=1))) == sorted(wanted)


def test_columns_and_a_batch_right_after_it(folder):
    (batch, *_) = Dataset.lance(folder, columns=["vector", "n"]).batch(400)

    assert list(batch) == ["vector", "n"]
    assert (batch["vector"].shape, batch["vector"].dtype) == ((400, 2), np.float32)


def test_a_state_is_exact_and_workers_have_each_row_once(folder, cluster):
    dataset = Dataset.lance(folder, columns=["n"])
    iterator = dataset.iterator()
    before = [int(next(iterator)["n"]) for _ in range(317)]

    assert before + numbers(dataset.iterator(iterator.state())) == list(range(1000))
    assert sorted(numbers(dataset.distribute("distributed_epoch", cluster.target))) == list(
        range(1000)
    )


def test_the_version_is_that_of_the_definition(folder):
    defined = Dataset.lance(folder)
    write(folder, rows(5, 1000), mode="append")

    assert numbers(defined) == list(range(1000))
    assert numbers(Dataset.lance(folder)) == list(range(1005))
    assert numbers(Dataset.lance(folder, version=1)) == list(range(1000))


def test_another_dataset_in_its_place_is_an_error(folder):
    defined = Dataset.lance(folder)
    shutil.rmtree(folder)
    write(folder, rows(1000), max_rows_per_file=300)

    with pytest.raises(FileChanged, match="version 1 of .*a.lance is not the one that this"):
        list(defined)
    shutil.rmtree(folder)
    with pytest.raises(MissingFile, match="there is no dataset"):
        list(defined)


def test_a_missing_value_names_its_row_and_costs_only_it(tmp_path):
    values = pa.array([None if n == 42 else n for n in range(100)], pa.int64())
    write(tmp_path / "f", pa.table({"n": values}), max_rows_per_file=30)

    with pytest.raises(TransformError, match="column 'n' has no value in row 42: give one"):
        list(Dataset.lance(tmp_path / "f"))
    assert numbers(Dataset.lance(tmp_path / "f").ignore_errors(log=None)) == [
        n for n in range(100) if n != 42
    ]
    assert numbers(Dataset.lance(tmp_path / "f", nulls={"n": -1}))[42] == -1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"version": 9}, "has no version 9; its versions are 1"),
        ({"version": "best"}, "has no version 'best'; its versions are 1"),
        ({"version": 1.5}, "version must be a number or the name of a tag, not 1.5"),
        ({"columns": ["N"]}, "has no column 'N'; its columns are n, text, vector, nest"),
        ({"columns": "n"}, "columns must be a list of names, not 'n'"),
        ({"nulls": {"n": "x"}}, "cannot be put into a column of type int64"),
    ],
)
def test_bad_arguments_are_refused_at_once(folder, arguments, words):
    with pytest.raises(DatasetError, match=words):
        Dataset.lance(folder, **arguments)


def test_a_column_of_blobs_is_refused(tmp_path):
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"b": [b"x"], "n": [1]}, pa.schema([field, pa.field("n", pa.int64())]))
    write(tmp_path / "f", table)

    with pytest.raises(DatasetError, match="column 'b' holds blobs, which are not read"):
        Dataset.lance(tmp_path / "f")
    assert numbers(Dataset.lance(tmp_path / "f", columns=["n"])) == [1]


def test_a_folder_that_is_no_dataset_is_named(tmp_path):
    with pytest.raises(MissingFile, match=rf"lance: there is no dataset '{tmp_path}'"):
        Dataset.lance(tmp_path)
    with pytest.raises(DatasetError, match=r"lance: cannot read '.*': .*Not a directory"):
        Dataset.lance(os.fspath(__file__))

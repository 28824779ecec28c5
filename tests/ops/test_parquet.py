import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError

TABLE = pa.table(
    {
        "n": range(100),
        "f": np.arange(100) / 3,
        "text": [f"{n}" for n in range(100)],
        "list": [[n, n + 1] for n in range(100)],
    }
)


@pytest.fixture
def file(tmp_path):
    pq.write_table(TABLE, tmp_path / "f.parquet", row_group_size=30)
    return tmp_path / "f.parquet"


def numbers(dataset):
    return [int(each["n"]) for each in dataset]


def test_columns_and_rows_are_chosen_as_pyarrow_chooses_them(file):
    wanted = pq.read_table(file, columns=["n", "f"], filters=[("n", ">", 40), ("f", "<", 30)])

    got = list(Dataset.parquet(file, ["f", "n"], [("n", ">", 40), ("f", "<", 30)]))

    assert [list(each) for each in got[:1]] == [["f", "n"]]
    assert [(int(e["n"]), float(e["f"])) for e in got] == list(
        zip(wanted["n"].to_pylist(), wanted["f"].to_pylist())
    )
    assert numbers(Dataset.parquet(file, filters=pc.field("n") == 50)) == [50]


@pytest.mark.quick(3)
@pytest.mark.parametrize("size", [7, 30, 64, 1])
def test_batches_of_rows_end_with_their_row_group(file, check_states, size):
    batches = list(Dataset.parquet(file, batch_rows=size))

    assert [len(batch["n"]) for batch in batches] == [
        min(size, group - at) for group in (30, 30, 30, 10) for at in range(0, group, size)
    ]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(range(100))
    check_states(lambda: Dataset.parquet(file, ["n", "text"], batch_rows=size), blocks=(1, 3))


def test_states_are_exact_where_rows_are_filtered(file, check_states):
    kept = [n for n in range(100) if n % 3 == 0]

    whole = check_states(
        lambda: Dataset.parquet(file, ["n"], pc.field("n").isin(kept)), blocks=(1, 5)
    )

    assert len(whole) == len(kept)


def test_a_batch_right_behind_is_that_of_the_elements(file):
    plain = Dataset.parquet(file).map(lambda row: row).batch(8)

    for got, wanted in zip(Dataset.parquet(file, ["n", "f", "text", "list"]).batch(8), plain):
        assert {name: column.tolist() for name, column in got.items()} == {
            name: column.tolist() for name, column in wanted.items()
        }
        assert [c.dtype for c in got.values()] == [c.dtype for c in wanted.values()]


def test_values_have_the_types_that_the_file_declares(tmp_path):
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 10)  # noqa: DTZ001  as Arrow has it
    columns = {
        "small": pa.array([1], pa.int8()),
        "half": pa.array([np.float16(1.5)], pa.float16()),
        "flag": pa.array([True]),
        "blob": pa.array([b"\xff"]),
        "word": pa.array(["a"]).dictionary_encode(),
        "price": pa.array([decimal.Decimal("1.25")]),
        "when": pa.array([moment], pa.timestamp("us")),
        "day": pa.array([moment.date()], pa.date32()),
        "nest": pa.array([{"x": 1, "y": {"z": "deep"}}]),
        "ragged": pa.array([[[1], [2, 3]]]),
        "words": pa.array([["a", "b"]]),
    }
    pq.write_table(pa.table(columns), tmp_path / "f")

    (row,) = Dataset.parquet(tmp_path / "f")

    assert row["small"].dtype == np.int8
    assert row["half"].dtype == np.float16
    assert (bool(row["flag"]), row["blob"], row["word"], float(row["price"])) == (
        True, b"\xff", "a", 1.25,
    )  # fmt: skip
    assert row["when"] == np.datetime64("2024-05-06T07:08:09.000010")
    assert row["day"] == np.datetime64("2024-05-06")
    assert row["nest"] == {"x": 1, "y": {"z": "deep"}}
    assert [part.tolist() for part in row["ragged"]] == [[1], [2, 3]]
    assert row["words"].tolist() == ["a", "b"]


def test_a_missing_value_is_an_error_that_names_it_unless_there_is_another(tmp_path):
    table = pa.table({"x": [1, 2, None], "t": [None, "b", "c"], "none": pa.nulls(3)})
    pq.write_table(table, tmp_path / "f")

    with pytest.raises(TransformError, match=r"column 'x' has no value in row 2: give one, as in"):
        list(Dataset.parquet(tmp_path / "f", ["x"]))

    filled = list(Dataset.parquet(tmp_path / "f", nulls={"x": -1, "t": "", "none": 0.0}))
    assert [(int(e["x"]), e["t"], float(e["none"])) for e in filled] == [
        (1, "", 0.0), (2, "b", 0.0), (-1, "c", 0.0),
    ]  # fmt: skip


def test_a_row_group_with_a_million_rows_is_read_in_pieces(tmp_path):
    pq.write_table(pa.table({"n": np.arange(1_000_000)}), tmp_path / "f", row_group_size=1_000_000)
    iterator = Dataset.parquet(tmp_path / "f").batch(1000).iterator()

    next(iterator)

    assert sum(len(batch["n"]) for batch in iterator) == 999_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": "n"}, "columns must be a list of names, not 'n'"),
        ({"columns": [3]}, r"columns must be a list of names, not \[3\]"),
        ({"filters": "n > 3"}, "filters='n > 3' cannot be used"),
        ({"batch_rows": 0}, "batch_rows must be an integer of at least 1, not 0"),
        ({"nulls": 0}, "nulls must be a dict by column, not 0"),
    ],
)
def test_malformed_arguments_are_refused_at_once(arguments, words):
    with pytest.raises(DatasetError, match=f"parquet: {words}"):
        Dataset.parquet("f.parquet", **{"nulls": {}, **arguments})


def test_an_unknown_column_is_refused_with_those_that_there_are(file):
    with pytest.raises(DatasetError, match=r"has no column 'N'; its columns are n, f, text, list"):
        list(Dataset.parquet(file, ["n", "N"]))


def test_nulls_and_filters_of_unknown_columns_are_refused(file):
    with pytest.raises(DatasetError, match=r"nulls=.*has no column 'N'; its columns are n, f"):
        list(Dataset.parquet(file, nulls={"N": 0}))
    for filters, why in [([("N", ">", 3)], "No match"), ([("n", ">", "a")], "no kernel")]:
        with pytest.raises(
            DatasetError, match=rf"on {file}, whose columns are n \(int64\), .*{why}"
        ):
            list(Dataset.parquet(file, filters=filters))


def test_files_whose_columns_differ_are_refused_with_the_difference(tmp_path):
    pq.write_table(pa.table({"n": [1], "m": [1]}), tmp_path / "a")
    pq.write_table(pa.table({"n": [1], "m": [0.5]}), tmp_path / "b")

    with pytest.raises(DatasetError, match=r"parquet: column 'm' is int64 in .*/a, and double in"):
        list(Dataset.parquet(tmp_path / "*"))
    assert numbers(Dataset.parquet(tmp_path / "*", columns=["n"])) == [1, 1]


def test_a_file_of_another_format_is_named(tmp_path):
    (tmp_path / "f").write_text("no table")

    with pytest.raises(TransformError, match=rf"parquet\({tmp_path}/f\) failed"):
        list(Dataset.parquet(tmp_path / "f"))


def test_a_missing_value_is_named_by_its_row_in_the_file(tmp_path):
    values = pa.array([None if n == 47 else n for n in range(60)])
    pq.write_table(pa.table({"n": values}), tmp_path / "f", row_group_size=20)

    with pytest.raises(TransformError, match=r"column 'n' has no value in row 47: .*row group 2"):
        list(Dataset.parquet(tmp_path / "f"))


MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001
COLUMNS = {
    "small": (pa.int8(), st.integers(-128, 127)),
    "large": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "real": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)),
    "blob": (pa.binary(), st.binary(max_size=9)),
    "word": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
    "pair": (pa.list_(pa.int16(), 2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), max_size=3)),
    "when": (pa.timestamp("us"), MOMENTS),
    "day": (pa.date32(), MOMENTS.map(dt.datetime.date)),
    "price": (pa.decimal128(9, 2), st.integers(0, 10**6).map(lambda n: decimal.Decimal(n) / 100)),
    "nest": (pa.struct({"x": pa.int32()}), st.fixed_dictionaries({"x": st.integers(0, 9)})),
}


def as_pyarrow_has_it(value):
    if isinstance(value, dict):
        return {name: as_pyarrow_has_it(each) for name, each in value.items()}
    if isinstance(value, (np.datetime64, np.ndarray, np.generic)):
        return value.tolist()
    return value


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True, min_size=1, max_size=4))
    count = draw(st.integers(0, 40))
    columns = {
        name: pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        for name, (kind, values) in ((name, COLUMNS[name]) for name in names)
    }
    return pa.table(columns)


@given(tables(), st.integers(1, 50), st.sampled_from(["none", "snappy", "zstd", "gzip", "brotli"]))
def test_any_table_is_read_as_pyarrow_reads_it(tmp_path_factory, table, group, compression):
    folder = tmp_path_factory.mktemp("table")
    pq.write_table(table, folder / "f", row_group_size=group, compression=compression)
    feather.write_feather(table, str(folder / "g"), chunksize=group)
    wanted = [
        {k: float(v) if isinstance(v, decimal.Decimal) else v for k, v in row.items()}
        for row in pq.read_table(folder / "f").to_pylist()
    ]

    assert [as_pyarrow_has_it(row) for row in Dataset.parquet(folder / "f")] == wanted
    assert [as_pyarrow_has_it(row) for row in Dataset.arrow(folder / "g")] == wanted


def test_small_row_groups_that_are_read_together_keep_their_numbers_in_states(
    check_states, tmp_path
):
    pq.write_table(pa.table({"n": range(30)}), tmp_path / "f", row_group_size=3)

    assert len(check_states(lambda: Dataset.parquet(tmp_path / "f"))) == 30
    assert numbers(Dataset.parquet(tmp_path / "f")) == [*range(30)]


def test_batches_end_with_small_row_groups_that_are_read_together(tmp_path):
    pq.write_table(pa.table({"n": range(50)}), tmp_path / "f", row_group_size=5)

    got = [batch["n"].tolist() for batch in Dataset.parquet(tmp_path / "f", batch_rows=3)]

    wanted = [[*range(at, at + 3)] if at % 5 == 0 else [at, at + 1] for at in range(50)]
    assert got == [wanted[at] for at in range(50) if at % 5 in (0, 3)]


def test_a_missing_value_in_row_groups_that_are_read_together_is_named_and_skipped(tmp_path):
    values = [None if n == 37 else n for n in range(60)]
    pq.write_table(pa.table({"n": values}), tmp_path / "f", row_group_size=4)
    dataset = Dataset.parquet(tmp_path / "f")

    assert numbers(dataset.ignore_errors(log=None)) == [n for n in range(60) if n != 37]
    with pytest.raises(TransformError, match=r"no value in row 37: .*element 1 of row group 9 of"):
        list(dataset)


def test_row_groups_before_a_damaged_one_are_read(tmp_path):
    pq.write_table(
        pa.table({"n": np.random.default_rng(0).random(40)}),
        tmp_path / "f",
        row_group_size=4,
        compression="zstd",
        use_dictionary=False,
    )
    column = pq.ParquetFile(tmp_path / "f").metadata.row_group(6).column(0)
    data = bytearray((tmp_path / "f").read_bytes())
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    (tmp_path / "f").write_bytes(data)

    assert len(numbers(Dataset.parquet(tmp_path / "f").ignore_errors(log=None))) == 24

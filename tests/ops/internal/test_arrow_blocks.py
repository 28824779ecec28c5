import pyarrow as pa
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.rows import Rows
from penstock.errors import ElementError
from penstock.ops.internal.arrow_blocks import block_of, check_columns, check_same, filled
from penstock.ops.internal.file_parts import RefusalError


def batch(**columns):
    return pa.record_batch(columns)


def test_columns_that_numpy_knows_make_no_elements():
    block = block_of(batch(n=pa.array([1, 2, 3]), t=pa.array(["a", "b", "c"])), {}, 0)

    assert isinstance(block, Rows)
    assert {name: column.tolist() for name, column in block.stacked().items()} == {
        "n": [1, 2, 3], "t": ["a", "b", "c"],
    }  # fmt: skip


def test_columns_that_it_does_not_know_make_elements_of_the_declared_types():
    block = block_of(batch(n=pa.array([1]), s=pa.array([{"x": 1.5}])), {}, 0)

    assert block == [{"n": 1, "s": {"x": 1.5}}]


def test_a_missing_value_is_named_by_the_row_of_the_file():
    with pytest.raises(ElementError, match="column 'x' has no value in row 12"):
        filled(pa.array([1, 2, None]), "x", {}, 10)

    assert filled(pa.array([1, None]), "x", {"x": 5}, 0).to_pylist() == [1, 5]


def test_a_column_that_is_not_there_is_refused():
    check_columns("parquet", "f", ("a",), ["a", "b"])
    check_columns("parquet", "f", None, ["a", "b"])
    with pytest.raises(RefusalError, match="parquet: f has no column 'c'; its columns are a, b"):
        check_columns("parquet", "f", ("a", "c"), ["a", "b"])


def compare(first, second):
    node = Dataset.range(1).node
    check_same(node, "a", pa.schema(first))
    check_same(node, "b", pa.schema(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x": pa.int64(), "y": pa.string()}, {"y": pa.large_string(), "x": pa.int64()}),
        ({"x": pa.string()}, {"x": pa.dictionary(pa.int32(), pa.string_view())}),
        ({"x": pa.list_(pa.int8())}, {"x": pa.large_list(pa.field("other", pa.int8()))}),
        ({"x": pa.decimal128(5)}, {"x": pa.float64()}),
        ({"x": pa.null()}, {"x": pa.int8()}),
        ({"x": pa.struct({"y": pa.int8()})}, {"x": pa.struct({"y": pa.null()})}),
    ],
)
def test_types_that_give_the_same_elements_are_alike(first, second):
    compare(first, second)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"x": pa.int64()}, {"x": pa.float64()}, "column 'x' is int64 in a, and double in b"),
        ({"x": pa.int64()}, {}, "a has a column 'x', and b has none"),
        ({}, {"x": pa.int64()}, "b has a column 'x', and a has none"),
        ({"x": pa.list_(pa.int8())}, {"x": pa.int8()}, "a list of int8 in a, and int8 in b"),
        (
            {"x": pa.struct({"y": pa.int8()})},
            {"x": pa.struct({"z": pa.int8()})},
            r"is a dict of y \(int8\) in a, and a dict of z \(int8\) in b",
        ),
    ],
)
def test_a_difference_is_named_with_both_files(first, second, words):
    with pytest.raises(RefusalError, match=words):
        compare(first, second)


def test_each_source_is_compared_with_its_own_first_file():
    node, other = Dataset.range(1).node, Dataset.range(1).node
    check_same(node, "a", pa.schema({"x": pa.int8()}))
    check_same(other, "b", pa.schema({"y": pa.int8()}))

    with pytest.raises(RefusalError, match="b has a column 'y', and c has none"):
        check_same(other, "c", pa.schema({"x": pa.int8()}))

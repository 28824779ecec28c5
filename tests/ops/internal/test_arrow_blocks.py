import pyarrow as pa
import pytest

from penstock.engine.rows import Rows
from penstock.errors import ElementError
from penstock.ops.internal.arrow_blocks import block_of, check_columns, filled
from penstock.ops.internal.file_records import RefusalError


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

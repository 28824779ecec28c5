"""Columns of Arrow as NumPy's: in their own memory where that can be."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.ops.internal.arrow_rows import column_of, plain


def column(values, kind=None, chunks=1):
    array = pa.array(values, kind)
    size = len(array) // chunks
    return pa.chunked_array([array[i * size : (i + 1) * size] for i in range(chunks)])


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", "float64"])
def test_numbers_are_views_of_arrows_memory(kind):
    array = pa.array(range(10), kind)

    made = column_of(pa.chunked_array([array[3:7]]))

    assert (made.tolist(), made.dtype) == ([3, 4, 5, 6], np.dtype(kind))
    whole = np.frombuffer(array.buffers()[1], kind, 10)
    assert np.shares_memory(made, whole)


def test_lists_of_one_length_are_rows_of_one_array_in_arrows_memory():
    array = pa.array([[i, i + 1] for i in range(8)])

    made = column_of(pa.chunked_array([array[2:5]]))

    assert made.tolist() == [[2, 3], [3, 4], [4, 5]]
    assert np.shares_memory(made, array.values.to_numpy())


def test_lists_of_differing_lengths_are_views():
    array = pa.array([[1.0], [], [2.0, 3.0], [4.0]])

    made = column_of(pa.chunked_array([array[1:]]))

    assert [each.tolist() for each in made] == [[], [2.0, 3.0], [4.0]]
    assert np.shares_memory(made[1], array.values.to_numpy())


def test_lists_of_a_fixed_length_are_rows():
    made = column_of(column([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)))

    assert (made.tolist(), made.dtype) == ([[1, 2], [3, 4]], np.int32)


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_text_is_text(kind):
    values = ["a", "é"] if "string" in kind else [b"a", b"\x00"]

    assert column_of(column(values, kind)).tolist() == values


def test_booleans_and_chunks_come_as_one_array():
    assert column_of(column([True, False, True, True], chunks=2)).tolist() == [
        True,
        False,
        True,
        True,
    ]
    assert column_of(column(range(6), chunks=3)).tolist() == list(range(6))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None], None),
        ([[1, None]], None),
        ([{"a": 1}], None),
        ([["a"]], None),
        ([[1, None]], pa.list_(pa.int64(), 2)),
        ([0], pa.timestamp("s")),
    ],
)
def test_what_has_no_such_form_is_left_to_the_library(values, kind):
    assert column_of(column(values, kind)) is None


def test_what_the_library_hands_out_becomes_arrays_where_it_is_of_numbers():
    class Picture:
        __array_interface__ = np.zeros((2, 2), np.uint8).__array_interface__

    row = plain(
        {"a": [[1, 2], [3, 4]], "b": [[1], [2, 3]], "c": ["x", "y"], "d": Picture(), "e": "z"}
    )

    assert row["a"].shape == row["d"].shape == (2, 2)
    assert [each.tolist() for each in row["b"]] == [[1], [2, 3]]
    assert (row["c"], row["e"]) == (("x", "y"), "z")


def test_a_dict_of_splits_and_other_things_are_refused():
    with pytest.raises(DatasetError, match=r"splits \['test', 'train'\].*dataset\[\"train\"\]"):
        Dataset.from_huggingface({"train": 1, "test": 2})
    with pytest.raises(DatasetError, match="give a datasets.Dataset"):
        Dataset.from_huggingface([1, 2])

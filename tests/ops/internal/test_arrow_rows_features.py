"""Values of rows get the types that features declare, empty lists too."""

import datetime as dt

import numpy as np
import pytest

from penstock.ops.internal.arrow_rows import typed


class Value:
    """As much of a `datasets.Value` as is looked at."""

    def __init__(self, dtype):
        self.dtype = dtype


class List:
    def __init__(self, feature):
        self.feature = feature


def made(value, feature):
    return typed(value, feature, lambda each: each)


@pytest.mark.parametrize(
    ("value", "dtype", "found"),
    [
        (3, "int8", "int8"),
        (0.5, "float16", "float16"),
        (True, "bool", "bool"),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "timestamp[s, tz=UTC]", "datetime64[s]"),
        (dt.date(2020, 1, 1), "date32", "datetime64[D]"),
        (dt.timedelta(days=1), "duration[ms]", "timedelta64[ms]"),
        (dt.time(1), "time32[s]", "timedelta64[s]"),
    ],
)
def test_a_scalar_has_its_declared_type(value, dtype, found):
    assert made(value, Value(dtype)).dtype == np.dtype(found)


@pytest.mark.parametrize(
    ("value", "depth", "shape"), [([], 1, (0,)), ([], 2, (0, 0)), ([[1], [2]], 2, (2, 1))]
)
def test_a_list_is_an_array_of_its_declared_type_and_axes(value, depth, shape):
    feature = Value("int16")
    for _ in range(depth):
        feature = List(feature)

    array = made(value, feature)

    assert (array.dtype, array.shape) == (np.int16, shape)


def test_ragged_lists_are_tuples_of_declared_arrays():
    one, other = made([[1], []], List(List(Value("uint8"))))

    assert (one.dtype, other.dtype, one.tolist(), other.tolist()) == (np.uint8, np.uint8, [1], [])


def test_texts_are_an_array_and_dicts_keep_their_structure():
    assert made([], List(Value("string"))).dtype == object
    (inside,) = made([{"a": 1}], List({"a": Value("uint8")}))
    assert inside["a"].dtype == np.uint8


def test_what_is_missing_or_has_no_such_type_is_left_alone():
    assert made(None, Value("int32")) is None
    assert made([1, None], List(Value("int32"))) == [1, None]
    assert made("x", Value("string")) == "x"

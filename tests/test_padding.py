"""Values to pad with are the same numbers in the arrays, or are refused."""

import numpy as np
import pytest

from penstock.padding import pad_value


@pytest.mark.parametrize(
    ("value", "dtype", "made"),
    [
        (-1, "int32", -1),
        (2.0, "uint8", 2),
        (True, "bool", True),
        (1, "bool", True),
        (-100, "float16", -100.0),
        (0.1, "float16", np.float16(0.1)),
        (float("inf"), "float16", np.inf),
        (np.float32(0.5), "float64", 0.5),
        (1j, "complex64", 1j),
    ],
)
def test_a_value_that_the_dtype_holds_becomes_a_scalar_of_it(value, dtype, made):
    found = pad_value(value, np.dtype(dtype))

    assert found == made
    assert found.dtype == np.dtype(dtype)


def test_nan_stays_nan():
    assert np.isnan(pad_value(float("nan"), np.dtype(np.float32)))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (-1, "uint8"),
        (256, "uint8"),
        (2**70, "int64"),
        (1.5, "int32"),
        (float("nan"), "int32"),
        (2, "bool"),
        (10**6, "float16"),
        (1e6, "float16"),
        (2049, "float16"),
        (1j, "float32"),
        ("x", "int32"),
        (None, "float32"),
        ([1], "int32"),
    ],
)
def test_a_value_that_the_dtype_cannot_hold_is_refused(value, dtype):
    assert pad_value(value, np.dtype(dtype)) is None

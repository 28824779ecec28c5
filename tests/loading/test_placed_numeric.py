"""Frameworks of numbers take numbers; what they cannot take is named, with what to do about it."""

import numpy as np
import pytest

from penstock.element import text_array
from penstock.errors import ElementError
from penstock.loading.placed import extended, numeric


@pytest.mark.parametrize("code", "?bBhHiIlLefdFD")
def test_numbers_pass_in_their_own_memory(code):
    array = np.zeros((2, 3), code)

    assert np.shares_memory(numeric(array, "torch"), array)


def test_a_scalar_becomes_an_array_without_axes():
    made = numeric(np.float32(1.5), "torch")

    assert (made.shape, made.dtype, made[()]) == ((), np.float32, 1.5)


def test_the_byte_order_of_another_machine_is_turned():
    made = numeric(np.array([1, 2], ">i4"), "torch")

    assert made.dtype.isnative
    assert made.tolist() == [1, 2]


@pytest.mark.parametrize("leaf", ["a", b"a", text_array(["a", "b"])])
def test_text_is_refused_and_the_message_says_what_to_do(leaf):
    with pytest.raises(ElementError, match=r"torch has no text, .*turn it into numbers"):
        numeric(leaf, "torch")


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]"])
def test_times_are_refused(dtype):
    with pytest.raises(ElementError, match=r"JAX has no times, .*np.int64"):
        numeric(np.zeros(2, dtype), "JAX")


@pytest.mark.parametrize(
    "dtype", [np.dtype([("a", "i4")]), np.dtype("V3"), np.dtype(np.longdouble)]
)
def test_what_has_no_arithmetic_in_frameworks_is_refused(dtype):
    with pytest.raises(ElementError, match=r"no arrays of .*astype"):
        numeric(np.zeros(2, dtype), "torch")


def test_bytes_without_a_meaning_are_no_number_format():
    assert not extended(np.dtype("V2"))

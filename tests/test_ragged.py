"""`Ragged`: rows of different lengths in one array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataset, Ragged
from penstock.element import collate, structure
from penstock.errors import ElementError, TransformError
from penstock.frames.frame import FrameBuilder, unpack

lengths = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def rows_of(sizes, start=0):
    return [np.arange(start + i, start + i + n, dtype=np.int32) for i, n in enumerate(sizes)]


def listed(rows):
    return [listed(row.rows()) if isinstance(row, Ragged) else row.tolist() for row in rows]


@given(lengths)
def test_the_rows_are_those_that_were_given(sizes):
    made = Ragged.of(rows_of(sizes))

    assert listed(made.rows()) == listed(rows_of(sizes))
    assert made.lengths.tolist() == sizes
    assert made.values.dtype == np.int32
    assert made.offsets.dtype == np.int64


@given(st.lists(lengths, min_size=1, max_size=4))
def test_stacked_ragged_arrays_are_rows_that_are_ragged(groups):
    made = collate([Ragged.of(rows_of(sizes)) for sizes in groups])

    assert listed(made.rows()) == [listed(rows_of(sizes)) for sizes in groups]
    twice = collate([made, made])
    assert listed(twice.rows()) == 2 * [listed(made.rows())]


@given(lengths, st.integers(0, 3))
def test_padded_rows_are_filled_up_at_their_ends(sizes, more):
    longest = max(sizes)

    padded = Ragged.of(rows_of(sizes)).padded(-1, longest + more)

    expected = [[*row.tolist(), *[-1] * (longest + more - len(row))] for row in rows_of(sizes)]
    assert padded.tolist() == expected
    assert padded.dtype == np.int32


def test_rows_keep_their_other_axes():
    made = Ragged.of([np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)])

    assert made.values.shape == (2, 3)
    assert [row.shape for row in made.rows()] == [(2, 3), (0, 3)]
    assert made.padded().shape == (2, 2, 3)


def test_text_has_rows_as_numbers_have():
    assert [row.tolist() for row in Ragged.of([["a", "bc"], ["d"]]).rows()] == [["a", "bc"], ["d"]]


def test_no_rows_have_the_dtype_and_axes_of_an_array_like_them():
    made = Ragged.of([], like=np.ones((4, 3), np.float32))

    assert (made.values.shape, made.values.dtype) == ((0, 3), np.float32)
    assert made.rows() == []
    assert collate([made, Ragged.of([np.ones((2, 3), np.float32)])]).lengths.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ([], r"there are no arrays, so nothing tells their dtype: give an array like them"),
        ([np.ones(2), np.ones(2, np.float32)], r"float64\[2\] is followed by float32\[2\]"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"float64\[2, 3\] is followed by float64\[2, 4\]"),
        ([3, 4], r"int64\[\] is followed by int64\[\]"),
    ],
)
def test_arrays_that_differ_in_more_than_their_lengths_are_refused(arrays, told):
    with pytest.raises(ElementError, match=told):
        Ragged.of(arrays)


def test_a_length_that_is_too_short_is_refused():
    with pytest.raises(ElementError, match=r"a row of length 3 is longer than length=2"):
        Ragged.of([[1, 2, 3]]).padded(length=2)


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int64, 1.5), (np.uint8, -1), (np.float16, 10**6), (np.int32, "x")]
)
def test_a_value_that_the_dtype_cannot_hold_is_refused(dtype, value):
    rows = Ragged.of([np.zeros(2, dtype), np.zeros(1, dtype)])

    with pytest.raises(
        ElementError, match=f"value={value!r} does not fit the rows, which are {np.dtype(dtype)}"
    ):
        rows.padded(value)


def test_rows_that_are_ragged_are_not_padded_at_once():
    with pytest.raises(ElementError, match=r"pad each of rows\(\) by itself"):
        collate([Ragged.of([[1]])]).padded()


def test_stacked_values_must_be_alike():
    with pytest.raises(ElementError, match=r"alike in dtype and in all axes but the first"):
        collate([Ragged.of([[1.0]]), Ragged.of([[1]])])
    with pytest.raises(ElementError, match=r"elements of one batch must be alike"):
        collate([Ragged.of([[1]]), collate([Ragged.of([[1]])])])


def test_a_frame_brings_ragged_arrays_back_as_such():
    sent = [{"x": Ragged.of(rows_of([n, 2])), "n": np.int64(n)} for n in range(5)]
    builder = FrameBuilder()
    assert builder.add(sent) == len(sent)
    layout, elements = builder.take()
    payload = bytearray(layout.nbytes)
    layout.write(elements, memoryview(payload))

    received = unpack(layout.to_bytes(), payload)

    assert structure(received[0]) == structure(sent[0])
    assert type(received[0]["x"]) is Ragged
    assert [listed(each["x"].rows()) for each in received] == [
        listed(each["x"].rows()) for each in sent
    ]


def test_a_ragged_list_names_it_as_the_remedy():
    with pytest.raises(TransformError, match=r"penstock\.Ragged\.of\(list\)"):
        list(Dataset.range(1).map(lambda _: [[1, 2], [3]]))

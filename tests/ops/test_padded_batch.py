"""`padded_batch`: shapes, values, text, and what does not fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError


class Pair(NamedTuple):
    left: Any
    right: Any


def growing(n=6):
    return Dataset.range(n).map(lambda i: np.arange(i, dtype=np.int32))


def only(dataset):
    (batch,) = dataset
    return batch


def test_arrays_are_padded_to_the_longest_of_their_batch(check_states):
    def padded(*lengths):
        out = np.zeros((len(lengths), max(lengths)), np.int32)
        for row, n in zip(out, lengths, strict=True):
            row[:n] = np.arange(n)
        return out

    check_states(lambda: growing(7).padded_batch(3), [padded(0, 1, 2), padded(3, 4, 5), padded(6)])
    check_states(
        lambda: growing(7).padded_batch(3, drop_remainder=True),
        [padded(0, 1, 2), padded(3, 4, 5)],
    )


def test_a_shape_fixes_some_axes_and_leaves_others_open():
    dataset = Dataset.range(1, 3).map(lambda n: np.ones((n, 2 * n)))

    assert only(dataset.padded_batch(2, (None, 5))).shape == (2, 2, 5)
    assert only(dataset.padded_batch(2, [3, -1])).shape == (2, 3, 4)
    assert only(dataset.padded_batch(2, [np.int64(3), None])).shape == (2, 3, 4)


def test_a_nest_has_a_shape_and_a_value_for_each_leaf():
    dataset = Dataset.range(1, 3).map(
        lambda n: {"ids": np.arange(n), "n": n, "pair": Pair(np.ones(n), "x" * int(n))}
    )
    shapes = {"ids": [3], "n": [], "pair": Pair([None], [])}
    values = {"ids": -1, "n": None, "pair": (np.nan, None)}

    batch = only(dataset.padded_batch(2, shapes, values))

    assert batch["ids"].tolist() == [[0, -1, -1], [0, 1, -1]]
    assert batch["n"].tolist() == [1, 2]
    assert isinstance(batch["pair"], Pair)
    np.testing.assert_array_equal(batch["pair"].left, [[1, np.nan], [1, 1]])
    assert batch["pair"].right.tolist() == ["x", "xx"]


def test_one_value_is_for_all_leaves():
    dataset = Dataset.range(1, 3).map(lambda n: (np.arange(n), np.ones(n, np.float32)))

    ids, ones = only(dataset.padded_batch(2, padding_values=7))

    assert ids.tolist() == [[0, 7], [0, 1]]
    assert ones.tolist() == [[1, 7], [1, 1]]
    assert ones.dtype == np.float32


@pytest.mark.parametrize(("words", "pad"), [(["a", "bc"], ""), ([b"a", b"bc"], b"")])
def test_text_is_padded_with_empty_text_of_its_kind(words, pad):
    dataset = Dataset.range(3).map(lambda n: np.array(words[: int(n)], object))

    batch = only(dataset.padded_batch(3))

    assert batch.dtype == object
    assert batch.tolist() == [[pad, pad], [words[0], pad], words]


def test_text_may_be_padded_with_a_word():
    dataset = Dataset.range(1, 3).map(lambda n: np.array(["a", "b"][: int(n)], object))

    assert only(dataset.padded_batch(2, padding_values="?")).tolist() == [["a", "?"], ["a", "b"]]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(-1, np.uint8), (0.5, np.int64), (300, np.uint8), ("x", np.float64), (1j, np.float32)]
    + [(np.nan, np.int32), (2, np.bool_), (0, object), (b"", object), ((0,), np.int64)]
    + [
        (2**70, np.int64),
        pytest.param(2**2000, np.float64, id="huge"),
        (1, "i4,f8"),
        (0.5, "m8[s]"),
        (1, "M8"),
    ],
)
def test_a_value_that_does_not_fit_is_named(value, dtype):
    def make(n):
        return np.array(["a"] * int(n), object) if dtype is object else np.zeros(n, dtype)

    with pytest.raises(ElementError, match="padding value .* does not fit"):
        only(Dataset.range(1, 3).map(make).padded_batch(2, padding_values=value))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ((1,), r"shape \[2\] is longer than the padded shape \[1\].*None"),
        ((2, 2), r"padded_shapes has \(2, 2\) .* for int64\[1\]"),
        ((), r"padded_shapes has \(\) .* for int64\[1\]"),
        ({"a": (2,)}, r"padded_shapes has"),
        ("ab", "padded_shapes has 'ab'"),
    ],
)
def test_a_shape_that_does_not_fit_is_named(shapes, message):
    with pytest.raises(ElementError, match=message):
        only(Dataset.range(1, 3).map(lambda n: np.arange(n)).padded_batch(2, shapes))


def test_a_nest_of_shapes_unlike_the_elements_is_named():
    dataset = Dataset.range(1, 3).map(lambda n: {"a": np.arange(n)})

    with pytest.raises(ElementError, match=r"does not have the structure of .*\{'a': int64\[1\]\}"):
        only(dataset.padded_batch(2, {"b": [None]}))


def test_a_scalar_has_no_axis_to_pad():
    with pytest.raises(ElementError, match="int64 has no axis to pad"):
        only(Dataset.range(2).padded_batch(2, [3]))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: np.zeros(2, np.int64) if n else np.zeros(2, np.int32),
        lambda n: np.zeros((2, 2)) if n else np.zeros(2),
        lambda n: np.zeros(2) if n else np.float64(1),
        lambda n: "text" if n else b"bytes",
        lambda n: (n, n) if n else n,
    ],
)
def test_elements_that_are_not_alike_name_both_and_cost_one_batch(make):
    dataset = Dataset.range(4).map(lambda n: make(n == 1)).padded_batch(2)

    with dataset.iterator() as it:
        with pytest.raises(ElementError, match="padded_batch: .* is followed by"):
            next(it)
        after = list(it)

    assert len(after) == 1


def test_str_and_bytes_do_not_mix_in_a_batch_of_arrays():
    dataset = Dataset.range(2).map(lambda n: np.array([b"a"] if n else ["a"], object))

    with pytest.raises(ElementError, match="str and bytes"):
        only(dataset.padded_batch(2))


def test_bad_arguments_are_named():
    with pytest.raises(DatasetError, match="padded_batch: batch_size"):
        growing().padded_batch(0)
    with pytest.raises(DatasetError, match="padded_shapes must be a nest of shapes"):
        growing().padded_batch(2, padded_shapes=object())
    with pytest.raises(DatasetError, match="padding_values must be a nest of numbers or text"):
        growing().padded_batch(2, padding_values={"a": {1, 2}})


def test_cardinality_counts_batches():
    assert growing(7).padded_batch(3).cardinality() == 3
    assert growing(7).padded_batch(3, drop_remainder=True).cardinality() == 2


def test_positions_and_padding_of_all_leaves_are_counted():
    rows = Dataset.from_sequence([1, 3, 2]).map(
        lambda n: {"a": np.ones(n), "b": np.ones((n, 2)), "n": n}
    )
    elements = iter(rows.padded_batch(2))
    list(elements)

    (found,) = elements.stats().figures
    assert found.padding_share == pytest.approx((2 + 4) / (6 + 12 + 2 + 4))

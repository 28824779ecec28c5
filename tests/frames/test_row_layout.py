"""Rows of a batch are written where `collate` would have them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from penstock.element import collate
from penstock.frames.row_layout import RowLayout


class Pair(NamedTuple):
    a: np.ndarray
    b: np.generic


def element(k):
    return {"x": np.full((2, 3), k, np.float32), "y": (np.int64(k), np.array([k, k + 1], np.uint8))}


def written(elements, cuts=(1,)):
    """Return *elements* as they lie in memory, written in parts that end at *cuts*."""
    layout = RowLayout.from_bytes(RowLayout.of(elements[0], len(elements)).to_bytes())
    memory = np.full(layout.nbytes, 0xFF, np.uint8)
    start = 0
    for stop in (*cuts, len(elements)):
        layout.write(layout.columns(elements[start:stop]), memory, start)
        start = stop
    return layout.stacked(memory, elements[0])


@pytest.mark.parametrize(
    "elements",
    [
        [element(k) for k in range(5)],
        [np.float16(k) for k in range(3)],
        [Pair(np.full(2, k), np.bool_(k)) for k in range(4)],
        [np.array([f"2024-01-0{k}"], "M8[D]") for k in range(1, 4)],
        [np.asfortranarray(np.arange(6).reshape(2, 3) + k) for k in range(3)],
        [np.zeros((0, 3), np.int8), np.zeros((0, 3), np.int8)],
    ],
)
def test_rows_lie_as_collate_stacks_them(elements):
    stacked, expected = written(elements), collate(elements)

    np.testing.assert_equal(stacked, expected)
    assert type(stacked) is type(expected)
    if isinstance(expected, np.ndarray):
        assert stacked.dtype == expected.dtype


def test_parts_may_be_written_in_any_lengths():
    elements = [element(k) for k in range(7)]

    np.testing.assert_equal(written(elements, cuts=(2, 3, 6)), collate(elements))


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.zeros((2, 3), np.float64), "y": (np.int64(1), np.zeros(2, np.uint8))},
        {"x": np.zeros((3, 2), np.float32), "y": (np.int64(1), np.zeros(2, np.uint8))},
        {"x": np.zeros((2, 3), np.float32), "y": (np.int32(1), np.zeros(2, np.uint8))},
        {"x": np.zeros((2, 3), np.float32), "z": (np.int64(1), np.zeros(2, np.uint8))},
        {"x": "text", "y": (np.int64(1), np.zeros(2, np.uint8))},
        np.zeros((2, 3), np.float32),
    ],
)
def test_what_is_not_like_the_first_does_not_fit(other):
    layout = RowLayout.of(element(0), 4)

    assert layout.columns([element(1), element(2)]) is not None
    assert layout.columns([other]) is None
    assert layout.columns([element(1), other]) is None


@pytest.mark.parametrize(
    "without",
    ["text", b"bytes", (), np.array(["a"], object), np.zeros(2, ">i4"), np.zeros(1, [("a", "i4")])],
)
def test_what_has_no_row_of_bytes_has_no_layout(without):
    assert RowLayout.of(without, 4) is None
    assert RowLayout.of({"a": without}, 4) is None

"""`reduce` and `get_single_element`: whole datasets as one value."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError


def test_reduce_hands_the_state_from_element_to_element():
    total = Dataset.range(5).reduce(0, lambda total, x: total + x)

    assert total == 10
    assert type(total) is np.int64


def test_reduce_of_nothing_is_the_initial_state():
    assert Dataset.range(0).reduce((0, "a"), lambda state, _: state) == (0, "a")


def test_a_tuple_is_one_argument_and_the_state_may_be_a_nest():
    pairs = Dataset.range(4).enumerate()

    state = pairs.reduce(
        {"sum": 0.0, "n": 0},
        lambda state, pair: {"sum": state["sum"] + pair[1], "n": state["n"] + 1},
    )

    assert state == {"sum": 6.0, "n": 4}


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda state, x: 1 // (2 - int(x)), r"reduce\(<lambda>\) failed at element 2: ZeroDiv"),
        (lambda state, x: (state, x), "must keep the structure of initial_state"),
        (lambda state, x: object(), "an element cannot hold"),
    ],
)
def test_an_error_of_the_function_names_the_element(fn, words):
    with pytest.raises(TransformError, match=words):
        Dataset.range(5).reduce(0, fn)


def test_what_cannot_be_called_is_named():
    with pytest.raises(DatasetError, match="reduce: reduce_func must be callable, not 7"):
        Dataset.range(5).reduce(0, 7)


def test_the_only_element_is_returned():
    assert Dataset.range(3).batch(3).get_single_element().tolist() == [0, 1, 2]


@pytest.mark.parametrize(("n", "words"), [(0, "has no element"), (2, "has more than one element")])
def test_none_or_several_elements_are_no_single_one(n, words):
    with pytest.raises(ValueError, match=words):
        Dataset.range(n).get_single_element()


def test_both_leave_no_thread_behind():
    before = set(threading.enumerate())
    ahead = Dataset.range(100).map(lambda x: x, num_parallel_calls=2).prefetch(2)

    with pytest.raises(DatasetError):
        ahead.get_single_element()
    with pytest.raises(TransformError):
        ahead.reduce(0, lambda state, x: None)

    assert set(threading.enumerate()) <= before

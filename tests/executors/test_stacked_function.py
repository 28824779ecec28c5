"""How `map_batches` calls functions: blocks cut into runs that stack, and errors of single rows."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.engine.rows import ArrayTable, Rows
from penstock.executors.function import UserFunction
from penstock.executors.stacked_function import Stacked, StackedFunction, caller


def test_rows_give_rows_and_elements_give_elements():
    numbers = np.arange(8)
    call = StackedFunction(lambda x: -x, "map_batches")

    made, failed = call.call_rows(Rows(ArrayTable(numbers, [numbers]), range(2, 5)), 2)

    assert failed is None
    assert isinstance(made, Rows)
    assert made.elements() == [-2, -3, -4]
    assert call.call_block([np.int64(3), np.int64(4)], 0) == ([-3, -4], None)
    assert call.call_block([], 0) == ([], None)


def test_each_run_of_elements_that_are_alike_is_one_call():
    seen = []
    block = [np.zeros(2), np.zeros(2), np.zeros(3), "a", "b", b"c", (np.int8(1),), {"a": "x"}]

    StackedFunction(lambda *parts: seen.append(parts) or parts, "map_batches").call_block(block, 0)

    shapes = [
        [part["a"].shape if isinstance(part, dict) else part.shape for part in parts]
        for parts in seen
    ]
    assert shapes == [[(2, 2)], [(1, 3)], [(2,)], [(1,)], [(1,)], [(1,)]]


@pytest.mark.parametrize("failing", [0, 2, 4])
def test_what_comes_before_an_element_that_fails_is_made(failing):
    def fussy(x):
        if (x == failing).any():
            raise ValueError("no")
        return x

    made, failed = StackedFunction(fussy, "map_batches").call_block(list(np.arange(5)), 10)

    assert made == list(range(failing))
    assert failed is not None
    assert failed.number == 10 + failing


def test_the_function_says_how_it_is_called():
    assert isinstance(caller(Stacked(abs), "map_batches", 0), StackedFunction)
    assert isinstance(caller(abs, "map", 0), UserFunction)

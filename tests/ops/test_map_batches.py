"""`map_batches`: what functions of blocks get and return, their errors, threads and processes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.graph.run import open_root


class Point(NamedTuple):
    x: Any
    y: Any


pytestmark = pytest.mark.usefixtures("function_processes_end")


def double(x):
    return x * 2


def picky(x):
    if ((x % 4 == 0) | (x % 4 == 3)).any():
        raise ValueError(f"not {x}")
    return x


PICKED = [
    TransformError("map_batches(picky)", i, f"ValueError: not [{i}]") if i % 4 in (0, 3) else i
    for i in range(13)
]


@pytest.mark.parametrize("calls", [None, 3])
def test_errors_are_those_of_single_elements(check_states, calls):
    check_states(lambda: Dataset.range(13).map_batches(picky, calls), PICKED)


def test_a_function_gets_arrays_with_a_row_for_each_element():
    seen = []

    def note(numbers, rows):
        seen.append((numbers.shape, rows.shape, numbers.dtype, rows.dtype))
        return rows, numbers

    rows = np.arange(40, dtype="f4").reshape(20, 2)
    pairs = list(Dataset.from_tensor_slices((np.arange(20), rows)).map_batches(note))

    assert [int(number) for _, number in pairs] == list(range(20))
    assert [row.tolist() for row, _ in pairs] == rows.tolist()
    assert all(
        a == (n,) and b == (n, 2) for (a, b, _, _), (n, *_) in zip(seen, (s[0] for s in seen))
    )
    assert {kinds for *_, a, b in seen for kinds in [(a.str, b.str)]} == {("<i8", "<f4")}
    assert max(shape[0] for shape, *_ in seen) > 1


def test_a_batch_that_follows_has_its_own_size():
    batches = list(Dataset.range(1000).map_batches(double).batch(300))

    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert np.concatenate(batches).tolist() == list(range(0, 2000, 2))


def test_text_and_nests_come_stacked_and_leave_as_elements():
    def swap(pair):
        assert pair.x.dtype == object
        return {"text": pair.x + "!", "pair": Point(pair.y, pair.y > 1)}

    elements = list(Dataset.range(4).map(lambda i: Point(f"t{i}", np.full(2, i))).map_batches(swap))

    assert [element["text"] for element in elements] == ["t0!", "t1!", "t2!", "t3!"]
    assert {type(element["text"]) for element in elements} == {str}
    assert [element["pair"].x.tolist() for element in elements] == [[i, i] for i in range(4)]
    assert elements[2]["pair"].y.tolist() == [True, True]


def test_elements_that_differ_in_shape_or_dtype_are_never_in_one_block():
    lengths = [1, 1, 2, 2, 2, 1, 3]

    elements = list(
        Dataset.range(7)
        .map(lambda i: np.arange(lengths[i]) if i < 6 else np.zeros(3))
        .batch(1)
        .unbatch()
        .map_batches(lambda x: x.sum(axis=1))
    )

    assert [float(x) for x in elements] == [sum(range(n)) for n in lengths[:6]] + [0.0]
    assert {str(x.dtype) for x in elements} == {"int64", "float64"}


@pytest.mark.parametrize("calls", [None, 2])
def test_another_number_of_rows_is_an_error_that_names_both(calls):
    elements = iter(Dataset.range(100).batch(4).map_batches(lambda x: x[:, :2][1:], calls))

    with pytest.raises(TransformError, match=r"it returned 0 rows for a block of 1: every array"):
        next(elements)


def test_the_counts_are_those_of_the_block():
    pairs = Dataset.range(64).map_batches(lambda x: (x, x[1:] if len(x) == 8 else x))

    with pytest.raises(TransformError, match=r"returned 7 and 8 rows for a block of 8:"):
        list(open_root(pairs.node, Context.local(5)).block(8))


@pytest.mark.parametrize("answer", [lambda x: x.sum(), lambda x: (), lambda x: None])
def test_what_is_no_array_with_rows_is_an_error(answer):
    with pytest.raises(TransformError):
        list(Dataset.range(8).map_batches(answer))


def test_what_it_gets_it_may_write_to():
    source = np.arange(6)

    def write(x):
        x += 1
        return x

    assert list(Dataset.from_tensor_slices(source).map_batches(write)) == [1, 2, 3, 4, 5, 6]
    assert source.tolist() == [0, 1, 2, 3, 4, 5]


def test_processes_call_it_on_blocks():
    made = Dataset.range(200).map_batches(double, num_parallel_calls=2, executor="process")

    assert list(made) == list(range(0, 400, 2))


def test_in_a_process_errors_are_those_of_single_elements():
    with iter(Dataset.range(5).map_batches(picky, executor="process")) as elements:
        with pytest.raises(TransformError, match="failed at element 0: ValueError: not"):
            next(elements)
        assert [next(elements), next(elements)] == [1, 2]
        with pytest.raises(TransformError, match="failed at element 3"):
            next(elements)
        with pytest.raises(TransformError, match="failed at element 4"):
            next(elements)
        assert list(elements) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "must be callable"),
        ((double, 0), "num_parallel_calls"),
        ((double, 2, "fork"), "executor must be"),
        ((lambda x, *, rng: x,), "use map"),
    ],
)
def test_malformed_arguments_are_errors_at_once(arguments, message):
    with pytest.raises(DatasetError, match=message):
        Dataset.range(3).map_batches(*arguments)

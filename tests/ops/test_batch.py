"""`batch`: what it gives, where it may be restored, what it says to bad input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, TransformError
from penstock.graph.node import UNKNOWN
from tests.ops.waiting import failing_at


class Pair(NamedTuple):
    left: Any
    right: Any


def test_a_nest_is_stacked_leaf_by_leaf():
    words = ["a", "bc", "d"]
    elements = [{"n": i, "pair": Pair(words[i], words[i].encode())} for i in range(3)]

    (batch,) = Dataset.range(3).map(lambda i: elements[i]).batch(3)

    assert batch["n"].dtype == np.int64
    assert batch["n"].tolist() == [0, 1, 2]
    assert type(batch["pair"]).__name__ == "Pair"
    assert batch["pair"].left.dtype == object
    assert batch["pair"].left.tolist() == words
    assert batch["pair"].right.tolist() == [b"a", b"bc", b"d"]


@pytest.mark.parametrize("operator", ["batch", "padded_batch"])
@pytest.mark.parametrize(
    "values",
    [
        [np.timedelta64(1, "s"), np.timedelta64(1500, "ms")],
        [np.datetime64("2020-01-01"), np.datetime64("2020-01-01T13:00")],
        [np.void(b"ab"), np.void(b"abcd")],
        [np.zeros(1, "i4,i4")[0], np.ones(1, "f4,f4")[0]],
        [np.zeros(1, "i4,i4")[0], np.ones(1, ">i4,>i4")[0]],
        [np.ones(1, "<i4"), np.ones(1, ">i4")],
    ],
)
def test_scalars_of_another_unit_size_or_byte_order_are_not_converted(operator, values):
    with pytest.raises(ElementError, match="is followed by|but"):
        next(iter(getattr(Dataset.from_sequence(values), operator)(2)))


@pytest.mark.parametrize(
    "dtype", ["i4,f8", [("a", "i4")], [("a", "V4"), ("b", ">i2")], "V3", "M8[s]"]
)
def test_records_and_times_beside_other_values_are_stacked_as_they_are(dtype):
    rows = np.arange(24, dtype=np.uint8).view("u1")[: 2 * np.dtype(dtype).itemsize].view(dtype)
    pairs = Dataset.from_tensor_slices(rows).enumerate().batch(2)

    ((_, batch),) = pairs

    assert batch.dtype == rows.dtype
    assert batch.tobytes() == rows.tobytes()


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # NumPy 2.5
def test_a_time_that_is_none_goes_with_every_unit():
    times = [np.datetime64("NaT"), np.datetime64(5, "ms"), np.datetime64("NaT", "ms")]

    (batch,) = Dataset.from_sequence(times).batch(3)

    assert batch.dtype == "M8[ms]"
    assert np.isnat(batch).tolist() == [True, False, True]


def test_arrays_keep_their_byte_order():
    values = Dataset.from_sequence([np.array([1, 2], ">i4"), np.array([3, 4], ">i4")])

    for batches in (values.batch(2), values.rebatch(4), values.unbatch().batch(4)):
        (batch,) = batches
        assert batch.dtype == np.dtype(">i4") or batches.node.op == "batch"
        assert batch.ravel().tolist() == [1, 2, 3, 4]
    (batch,) = values.batch(2)
    assert batch.dtype == np.dtype(">i4")


def test_an_empty_list_becomes_what_the_others_are_padded_to():
    tokens = [[], [1, 2], []]

    (batch,) = Dataset.from_sequence(tokens).padded_batch(3)

    assert batch.dtype == np.int64
    assert batch.tolist() == [[0, 0], [1, 2], [0, 0]]


def test_text_of_two_kinds_is_refused_and_named():
    mixed = Dataset.from_sequence([["a"], [b"b"]])

    for batches in (mixed.batch(2), mixed.rebatch(2)):
        with pytest.raises(ElementError, match=r"str\[1\] is followed by bytes\[1\]"):
            list(batches)


def test_arguments_are_shown_in_part_where_they_are_long():
    numbers = Dataset.range(3)
    for make in (
        lambda: list(numbers.padded_batch(2, padded_shapes=tuple(range(5000)))),
        lambda: list(numbers.padded_batch(2, padded_shapes={str(i): 1 for i in range(5000)})),
        lambda: Dataset.zip([0] * 5000),
    ):
        with pytest.raises((ElementError, DatasetError)) as caught:
            make()
        assert len(str(caught.value)) < 500


ROWS = [{"a": 1, "b": 10}, {"b": 20, "a": 2}, {"b": 30, "a": 3}, {"a": 4, "b": 40}]


@pytest.mark.parametrize(
    "grouped",
    [
        lambda rows: rows.batch(4),
        lambda rows: rows.padded_batch(4),
        lambda rows: rows.batch(1).rebatch(4),
        lambda rows: rows.batch(2).unbatch().batch(4),
        lambda rows: rows.window(4).flat_map(lambda w: w.batch(4)),
        lambda rows: rows.map_batches(lambda batch: batch).batch(4),
        lambda rows: rows.unique().batch(4),
        lambda rows: rows.bucket_by_sequence_length(lambda _: 1, [2], [4, 4]),
    ],
)
def test_the_order_of_keys_is_no_part_of_the_structure(grouped):
    (batch,) = grouped(Dataset.from_sequence(ROWS))

    assert {key: batch[key].tolist() for key in sorted(batch)} == {
        "a": [1, 2, 3, 4],
        "b": [10, 20, 30, 40],
    }


def test_equal_rows_are_equal_whatever_the_order_of_their_keys():
    rows = Dataset.from_sequence([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}])

    assert len(list(rows.unique())) == 2


def test_a_carried_state_keeps_its_values_whatever_the_order_of_its_keys(check_states):
    def step(state, x):
        return {"n": state["n"] + 1, "sum": state["sum"] + x}, state["sum"]

    def turned(state, x):
        carried, out = step(state, x)
        return dict(reversed(carried.items())), out

    def make():
        return Dataset.range(6).scan({"n": 0, "sum": 0}, turned)

    assert [int(value) for value in make()] == [0, 0, 1, 3, 6, 10]
    check_states(make)
    reduced = Dataset.range(6).reduce({"n": 0, "sum": 0}, lambda state, x: turned(state, x)[0])
    assert reduced == {"n": 6, "sum": 15}


def test_no_error_shows_more_than_the_start_of_a_large_structure():
    many = Dataset.range(2).map(lambda i: tuple(range(3000 + int(i))))

    for batches in (many.batch(2), many.rebatch(2), many.unbatch(), many.padded_batch(2)):
        with pytest.raises(ElementError) as caught:
            list(batches)
        assert len(str(caught.value)) < 600
        assert "parts in all" in str(caught.value)


def test_a_restored_batch_calls_the_function_for_its_own_elements_only(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(100).map(fn).batch(8)
    with iter(dataset) as it:
        for _ in range(5):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        batch = next(it)

    assert batch.tolist() == list(range(40, 48))
    assert fn.calls[:8] == list(range(40, 48))
    assert min(fn.calls) == 40


def test_skipped_batches_call_nothing(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(40).map(fn).batch(4).shuffle(2, seed=1)
    with iter(dataset) as it:
        for _ in range(6):
            next(it)
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        next(it)

    assert len(set(fn.calls)) <= 4 * 3


def test_an_error_in_the_input_leaves_the_batch_open(check_states):
    def make():
        return Dataset.range(9).map(failing_at(0, 4, 5, 8)).batch(3)

    outcome = check_states(make)

    values = [repr(x) for x in outcome if isinstance(x, tuple)]
    assert values == [
        repr(("int64", (3,), "[1, 2, 3]")),
        repr(("int64", (2,), "[6, 7]")),
    ]
    assert [isinstance(x, tuple) for x in outcome] == [False, True, False, False, False, True]


def test_ragged_elements_name_both_shapes_and_the_way_out_and_cost_one_batch(check_states):
    def make():
        return Dataset.range(8).map(lambda n: np.zeros(2 + (n == 3))).batch(2)

    outcome = check_states(make)

    assert [type(x).__name__ for x in outcome] == ["tuple", "Failure", "tuple", "tuple"]
    with make().iterator() as it:
        next(it)
        with pytest.raises(ElementError, match=r"float64\[2\].*float64\[3\].*padded_batch"):
            next(it)


def test_elements_of_changing_structure_name_both():
    dataset = Dataset.range(4).map(lambda n: (n, n) if n else {"n": n}).batch(2)

    with pytest.raises(ElementError, match=r"\{'n': int64\} is followed by \(int64, int64\)"):
        next(iter(dataset))


def test_a_short_last_batch_may_fail_as_well(check_states):
    check_states(lambda: Dataset.range(5).map(lambda n: np.zeros(2 + (n == 4))).batch(3))


def test_the_error_of_an_element_comes_behind_the_batches_before_it():
    with Dataset.range(10).map(failing_at(7)).batch(2).iterator() as it:
        before = [next(it).tolist() for _ in range(3)]
        with pytest.raises(TransformError, match="7 is bad"):
            next(it)
        after = [batch.tolist() for batch in it]

    assert before == [[0, 1], [2, 3], [4, 5]]
    assert after == [[6, 8], [9]]


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", None, True])
def test_a_bad_size_is_named(size):
    with pytest.raises(DatasetError, match="batch: batch_size must be an integer of at least 1"):
        Dataset.range(3).batch(size)


def test_cardinality_counts_batches():
    assert Dataset.range(10).batch(3).cardinality() == 4
    assert Dataset.range(10).batch(3, drop_remainder=True).cardinality() == 3
    assert Dataset.range(10).repeat().batch(3).cardinality() == -1
    assert Dataset.range(10).filter(lambda x: x > 3).batch(3).cardinality() == UNKNOWN


def test_splits_are_read_again_from_the_first_element_of_the_next_batch(check_states):
    log = [(0, 4), (4, 5), (8, 11), None]
    expected = [np.array([0, 1, 2]), np.array([3, 4, 8]), np.array([9, 10])]

    check_states(lambda: Dataset.range(20).batch(3), expected, logs=[log], streams={".0": 0})

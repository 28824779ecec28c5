"""`ragged_batch`: arrays of different lengths in one batch, without padding."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import ArraySpec, Dataset, Ragged
from penstock.errors import DatasetError, ElementError


def growing(n=7):
    return Dataset.range(n).map(
        lambda i: {"ids": np.arange(i, dtype=np.int32), "pixels": np.full(2, i), "n": i}
    )


def test_arrays_are_rows_and_numbers_are_stacked(check_states):
    def batch(*numbers):
        ids = Ragged.of([np.arange(i, dtype=np.int32) for i in numbers])
        return {"ids": ids, "pixels": np.array([[i, i] for i in numbers]), "n": np.array(numbers)}

    expected = [batch(0, 1, 2), batch(3, 4, 5), batch(6)]
    check_states(lambda: growing().ragged_batch(3, fields=["ids"]), expected)
    check_states(lambda: growing().ragged_batch(3, True, ["ids"]), expected[:2])


def test_without_fields_all_arrays_are_rows():
    first = next(iter(growing().ragged_batch(3)))

    assert isinstance(first["pixels"], Ragged)
    assert first["pixels"].offsets.tolist() == [0, 2, 4, 6]
    assert first["n"].tolist() == [0, 1, 2]


def test_elements_that_are_ragged_get_one_more_level_in_any_batch():
    ragged = Dataset.range(4).map(lambda i: {"x": Ragged.of([np.ones(i), np.ones(1)])})

    for batches in (ragged.ragged_batch(2), ragged.batch(2), ragged.padded_batch(2)):
        first, second = batches
        assert [row.lengths.tolist() for row in second["x"].rows()] == [[2, 1], [3, 1]]
        assert [row.lengths.tolist() for row in first["x"].rows()] == [[0, 1], [1, 1]]


def test_workers_processes_and_equal_lengths_change_nothing():
    def same(_):
        return Ragged.of([np.ones(2), np.ones(3)])

    made = Dataset.range(8).map(same, executor="process", num_parallel_calls=2).batch(4)

    assert [batch.lengths.tolist() for batch in made] == [[2] * 4] * 2
    assert all(isinstance(batch.values, Ragged) for batch in made)


def test_its_spec_says_which_axes_differ():
    spec = growing().ragged_batch(3, fields=["ids"]).element_spec

    assert spec["ids"] == Ragged(
        ArraySpec((None,), np.dtype(np.int32)), ArraySpec((None,), np.dtype(np.int64))
    )
    assert spec["pixels"].shape == (None, 2)
    endless = growing().repeat().ragged_batch(3, fields=["ids"]).element_spec
    assert endless["ids"].offsets.shape == (4,)


@pytest.mark.parametrize(
    ("fields", "error", "told"),
    [
        ("ids", DatasetError, r"fields must be a list of keys, as in fields=\['tokens'\]"),
        ([3], DatasetError, r"fields must be a list of keys"),
        (["id"], ElementError, r"elements have no field 'id', they are \{'ids'"),
    ],
)
def test_fields_that_are_none_are_refused(fields, error, told):
    with pytest.raises(error, match=told):
        next(iter(growing().ragged_batch(3, fields=fields)))


def test_elements_of_another_structure_or_dtype_are_refused():
    mixed = Dataset.range(2).map(lambda i: (np.ones(2),) if i else {"a": np.ones(2)})
    with pytest.raises(ElementError, match=r"must have one structure"):
        list(mixed.ragged_batch(2))
    mixed = Dataset.range(2).map(lambda i: np.ones(2, np.int32 if i else np.float32))
    with pytest.raises(ElementError, match=r"float32\[2\] is followed by int32\[2\]"):
        list(mixed.ragged_batch(2))


def test_a_ragged_batch_has_no_rows_for_unbatch():
    with pytest.raises(ElementError, match=r"unbatch: every part of an element must be an array"):
        list(Dataset.range(3).map(lambda _: np.ones(1)).ragged_batch(2).unbatch())

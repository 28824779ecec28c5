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


def as_lists(element):
    """Return *element* with lists in the place of arrays; the rows of ragged ones."""
    if isinstance(element, Ragged):
        return [as_lists(row) for row in element.rows()]
    if isinstance(element, dict):
        return {key: as_lists(value) for key, value in element.items()}
    return element.tolist()


def with_boxes(i):
    boxes = [np.full((n, 4), i) for n in range(int(i) % 3)]
    return {
        "tokens": np.arange(i % 4),
        "n": i,
        "boxes": Ragged.of(boxes, like=np.empty((0, 4), int)),
    }


def test_unbatch_gives_back_the_elements(check_states):
    documents = Dataset.range(9).map(with_boxes)
    wanted = list(map(as_lists, documents))

    got = list(documents.ragged_batch(4).unbatch())

    assert list(map(as_lists, got)) == wanted
    assert all(isinstance(each["boxes"], Ragged) for each in got)
    assert all(each["tokens"].base is None for each in got)
    check_states(
        lambda: growing().ragged_batch(3, fields=["ids"]).unbatch(), list(growing()), blocks=(1, 4)
    )


def test_rebatch_cuts_and_joins_the_rows(check_states):
    documents = Dataset.range(10).map(with_boxes)

    got = list(documents.ragged_batch(4).rebatch(3))

    assert [as_lists(each) for each in got] == [
        as_lists(each) for each in documents.ragged_batch(3)
    ]
    check_states(
        lambda: growing().ragged_batch(4).rebatch(3), list(growing().ragged_batch(3)), blocks=(1, 2)
    )


def test_the_spec_of_batches_of_another_size_says_which_axes_differ():
    spec = growing().repeat().ragged_batch(3, fields=["ids"]).rebatch(5, True).element_spec

    assert spec["ids"].offsets.shape == (6,)
    assert spec["ids"].values.shape == (None,)
    assert spec["pixels"].shape == (5, 2)


def test_ragged_arrays_of_other_dtypes_are_not_joined():
    mixed = Dataset.range(4).map(lambda i: np.ones(2, np.int32 if i < 2 else np.float32))
    with pytest.raises(ElementError, match=r"rebatch: batches that are joined must be alike"):
        list(mixed.ragged_batch(2).rebatch(3))

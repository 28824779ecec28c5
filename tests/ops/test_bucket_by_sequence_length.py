import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, TransformError
from penstock.graph.node import UNKNOWN

LENGTHS = [1, 4, 3, 5, 6, 2, 2, 9, 0, 4, 1]


def words(lengths=LENGTHS):
    """Arrays of these lengths, which hold their number."""
    rows = [np.full(length, i + 1) for i, length in enumerate(lengths)]
    return Dataset.from_sequence(rows)


def shown(dataset):
    return [x.tolist() for x in dataset]


def test_the_example_of_the_reference():
    rows = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]
    ds = Dataset.from_sequence([np.array(row) for row in rows])

    seen = shown(ds.bucket_by_sequence_length(len, [3, 5], [2, 2, 2]))

    assert seen == [
        [[1, 2, 3, 4], [5, 6, 7, 0]],
        [[7, 8, 9, 10, 11, 0], [13, 14, 15, 16, 19, 20]],
        [[0, 0], [21, 22]],
    ]


@pytest.mark.parametrize("drop", [False, True])
def test_it_is_groups_that_are_padded(check_states, drop):
    boundaries, sizes = [2, 5], [3, 2, 1]

    def by_hand():
        return words().group_by_window(
            lambda x: int(np.searchsorted(boundaries, len(x), side="right")),
            lambda key, window: window.padded_batch(sizes[int(key)], drop_remainder=drop),
            window_size_func=lambda key: sizes[int(key)],
        )

    check_states(
        lambda: words().bucket_by_sequence_length(len, boundaries, sizes, drop_remainder=drop),
        list(by_hand()),
    )


def test_a_batch_that_was_delivered_is_not_made_again(counted):
    number = counted(lambda x: x)

    def make():
        rows = Dataset.range(100).map(number).map(lambda x: np.ones(x % 4))
        return rows.bucket_by_sequence_length(len, [2], [3, 3])

    it = iter(make())
    next(it)
    state = it.state()
    number.calls.clear()

    next(make().iterator(state))

    assert number.calls[:3] == [2, 3, 5]


def test_shapes_and_values_are_those_of_padded_batch():
    pairs = words([2, 1]).map(lambda x: (x, x * 1.0))

    (ids, floats), = pairs.bucket_by_sequence_length(
        lambda x, y: len(x), [5], [2, 2], padded_shapes=((None,), (3,)), padding_values=(9, -1.0)
    )  # fmt: skip

    assert ids.tolist() == [[1, 1], [2, 9]]
    assert floats.tolist() == [[1, 1, -1], [2, -1, -1]]


def test_batches_are_padded_to_their_boundary(check_states):
    check_states(
        lambda: words([1, 3, 2, 0]).bucket_by_sequence_length(
            len, [3, 5], [2, 2, 2], pad_to_bucket_boundary=True
        ),
        [np.array([[1, 0], [3, 3]]), np.array([[0, 0]]), np.array([[2, 2, 2, 0]])],
    )


def test_only_open_axes_are_padded_to_the_boundary():
    ds = words([2, 1]).map(lambda x: {"n": len(x), "x": x, "y": np.ones((1, len(x)))})

    (batch,) = ds.bucket_by_sequence_length(
        lambda e: e["n"],
        [4],
        [2, 2],
        padded_shapes={"n": (), "x": (None,), "y": (2, -1)},
        pad_to_bucket_boundary=True,
    )

    assert {key: value.shape for key, value in batch.items()} == {
        "n": (2,),
        "x": (2, 3),
        "y": (2, 2, 3),
    }


def test_what_is_too_long_for_the_last_boundary_is_an_error_of_its_own(check_states):
    check_states(
        lambda: words([1, 7, 2]).bucket_by_sequence_length(
            len, [3], [2, 2], pad_to_bucket_boundary=True
        ),
        [
            ElementError(
                "bucket_by_sequence_length: element 1 has length 7, and with "
                "pad_to_bucket_boundary lengths must be below the last of bucket_boundaries, 3: "
                "add one, or filter such elements out before"
            ),
            np.array([[1, 0], [3, 3]]),
        ],
    )


def test_without_padding_lengths_of_a_batch_must_be_equal():
    ds = words([2, 2, 5, 6])

    it = iter(ds.bucket_by_sequence_length(len, [3], [2, 2], no_padding=True))

    assert next(it).tolist() == [[1, 1], [2, 2]]
    with pytest.raises(ElementError, match="must be alike"):
        next(it)
    assert list(it) == []


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"element_length_func": 3}, "element_length_func must be callable, not 3"),
        ({"bucket_boundaries": []}, "bucket_boundaries must not be empty"),
        ({"bucket_boundaries": 7}, "bucket_boundaries must be a list of integers, not 7"),
        ({"bucket_boundaries": [5, 3]}, "must increase, but 5 is followed by 3"),
        ({"bucket_boundaries": [3, 3]}, "must increase, but 3 is followed by 3"),
        ({"bucket_boundaries": [0, 3]}, r"bucket_boundaries\[0\] must be .* at least 1, not 0"),
        ({"bucket_boundaries": [3, 4.5]}, r"bucket_boundaries\[1\] must be an integer .*4.5"),
        ({"bucket_batch_sizes": []}, "2 bucket_boundaries make 3 buckets, but there are 0"),
        ({"bucket_batch_sizes": [1, 2]}, "make 3 buckets, but there are 2 bucket_batch_sizes"),
        ({"bucket_batch_sizes": [1, 0, 2]}, r"bucket_batch_sizes\[1\] must be .* at least 1"),
        ({"bucket_batch_sizes": "abc"}, "bucket_batch_sizes must be a list of integers"),
        ({"padded_shapes": 2.5j * np.ones(1)}, "padded_shapes must be a nest of shapes"),
    ],
)
def test_bad_arguments_are_refused_at_once(kwargs, match):
    good = {
        "element_length_func": len,
        "bucket_boundaries": [3, 5],
        "bucket_batch_sizes": [2, 2, 2],
    }

    with pytest.raises(DatasetError, match=f"^bucket_by_sequence_length: .*{match}"):
        words().bucket_by_sequence_length(**{**good, **kwargs})


def test_a_length_must_be_an_integer():
    it = iter(words([1]).bucket_by_sequence_length(lambda x: 1.5, [3], [1, 1]))

    with pytest.raises(TransformError, match="element_length_func must return an integer, not"):
        next(it)


def test_how_many_there_are_only_reading_tells():
    assert words().bucket_by_sequence_length(len, [3], [1, 1]).cardinality() == UNKNOWN

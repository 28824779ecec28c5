from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError


class Pair(NamedTuple):
    left: Any
    right: Any


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([], []),
        (np.arange(3.0), [0.0, 1.0, 2.0]),
        ([[1, 2], [3, 4]], [np.array([1, 2]), np.array([3, 4])]),
        (["a", "b\0"], ["a", "b\0"]),
        ([b"a\0", b""], [b"a\0", b""]),
        (np.array(["ab", "c"]), ["ab", "c"]),
        ([["a", "b"]], [np.array(["a", "b"], object)]),
        (([1, 2], ["a", "b"]), [(1, "a"), (2, "b")]),
        ({"a": [1, 2], "b": ([3, 4],)}, [{"a": 1, "b": (3,)}, {"a": 2, "b": (4,)}]),
        ({"a": [1, 2], "b": ["x", "y"]}, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        (({"a": [1, 2]},), [({"a": 1},), ({"a": 2},)]),
        ({"a": ([1, 2],)}, [{"a": (1,)}, {"a": (2,)}]),
        (Pair([1, 2], [3, 4]), [Pair(1, 3), Pair(2, 4)]),
    ],
)
def test_slices_are_rows_in_the_same_nest(check_states, tensors, expected):
    check_states(lambda: Dataset.from_tensor_slices(tensors), expected)
    assert Dataset.from_tensor_slices(tensors).cardinality() == len(expected)


def test_rows_of_a_memory_map_are_plain_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")

    rows = list(Dataset.from_tensor_slices(mapped))

    assert {type(row) for row in rows} == {np.ndarray}
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]


def test_arrays_are_not_copied_and_cannot_be_written_to():
    owned = np.zeros((3, 2))

    row = next(iter(Dataset.from_tensor_slices(owned)))

    assert np.shares_memory(row, owned)
    assert not row.flags.writeable
    assert owned.flags.writeable


def test_arrays_of_different_lengths_are_both_named():
    with pytest.raises(
        DatasetError, match=r"tensors\['a'\] has 3 rows and tensors\['b'\]\[1\] has 2"
    ):
        Dataset.from_tensor_slices({"a": [1, 2, 3], "b": ([1, 2, 3], [1, 2])})


def test_scalars_have_no_slices():
    with pytest.raises(DatasetError, match=r"tensors\[1\] is a scalar.*use from_tensors"):
        Dataset.from_tensor_slices(([1, 2], 3))


@pytest.mark.parametrize("empty", [(), {}, ((), {})])
def test_an_empty_nest_has_no_slices(empty):
    with pytest.raises(DatasetError, match="must hold an array"):
        Dataset.from_tensor_slices(empty)


def test_what_is_no_array_is_named():
    with pytest.raises(ElementError, match="ragged"):
        Dataset.from_tensor_slices([[1], [2, 3]])
    with pytest.raises(ElementError, match="object array"):
        Dataset.from_tensor_slices([1, "a"])

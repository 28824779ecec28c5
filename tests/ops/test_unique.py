import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock.graph.node import UNKNOWN


def unique(dataset):
    return dataset.unique()


def test_what_was_dropped_before_an_element_is_not_looked_at_again(check_states, counted):
    fn = counted(lambda x: x // 10)
    it = iter(unique(Dataset.range(1000).map(fn)))
    for _ in range(40):
        next(it)
    state = it.state()
    fn.calls.clear()

    restored = unique(Dataset.range(1000).map(fn)).iterator(state)

    assert next(restored) == 40
    assert min(fn.calls) > 380


def test_values_of_all_kinds_are_told_apart():
    elements = [
        np.int64(1), np.int32(1), np.float64(1), "1", b"1", np.array([1]), np.array([[1]]),
        (1, 1), (1, (1,)), {"a": 1}, {"b": 1}, np.array(["1"], object), np.array([b"1"], object),
    ]  # fmt: skip

    seen = list(unique(Dataset.from_sequence(elements * 2)))

    assert len(seen) == len(elements)


def test_equal_values_are_one():
    elements = [np.array([1.5, 2.5]), np.array([1.5, 2.5]), "x", "x", (1, "a"), (1, "a")]

    assert len(list(unique(Dataset.from_sequence(elements)))) == 3


def test_an_error_belongs_to_its_element(check_states):
    def picky(x):
        if x == 3:
            raise ValueError("no")
        return x % 4

    check_states(
        lambda: unique(Dataset.range(9).map(picky)),
        [0, 1, 2, TransformError("map(picky)", 3, "ValueError: no"), 3],
    )


@pytest.mark.parametrize(("size", "cardinality"), [(0, 0), (5, UNKNOWN)])
def test_how_many_there_are_only_reading_tells(size, cardinality):
    assert unique(Dataset.range(size)).cardinality() == cardinality

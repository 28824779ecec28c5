import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN


@pytest.mark.parametrize("count", [-1, 0, 1, 5, 9, 20])
def test_take_keeps_the_first(check_states, count):
    check_states(lambda: Dataset.range(9).take(count), list(range(9))[: count if count >= 0 else 9])


def test_no_more_is_made_than_is_taken(counted):
    fn = counted(lambda x: x)

    assert list(Dataset.range(100).map(fn).take(5)) == [0, 1, 2, 3, 4]
    assert fn.calls == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("dataset", "count", "cardinality"),
    [
        (Dataset.range(9), 5, 5),
        (Dataset.range(9), 20, 9),
        (Dataset.range(9), -1, 9),
        (Dataset.range(9).repeat(), 20, 20),
        (Dataset.range(9).repeat(), -1, INFINITE),
        (Dataset.range(9).filter(bool), 5, UNKNOWN),
    ],
)
def test_the_cardinality(dataset, count, cardinality):
    assert dataset.take(count).cardinality() == cardinality


@pytest.mark.parametrize("count", [-2, 1.0, None, True, "3"])
def test_a_bad_count_is_named(count):
    with pytest.raises(DatasetError, match="take: count must be an integer of at least -1, not "):
        Dataset.range(3).take(count)

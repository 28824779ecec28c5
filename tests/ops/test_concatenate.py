import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN


def test_errors_keep_their_places(check_states):
    def picky(x):
        if x == 2:
            raise ValueError("two")
        return x

    failed = TransformError("map(picky)", 2, "ValueError: two")
    check_states(
        lambda: Dataset.range(3).map(picky).concatenate(Dataset.range(4).map(picky)),
        [0, 1, failed, 0, 1, failed, 3],
    )


def test_a_restored_one_does_not_make_the_first_again(counted):
    fn = counted(lambda x: x)
    make = lambda: Dataset.range(50).map(fn).concatenate(Dataset.range(5))
    it = iter(make())
    for _ in range(52):
        next(it)
    state = it.state()
    fn.calls.clear()

    assert list(make().iterator(state)) == [2, 3, 4]
    assert fn.calls == []


def test_the_cardinality():
    three, many, some = Dataset.range(3), Dataset.range(3).repeat(), Dataset.range(3).filter(bool)

    assert three.concatenate(three).cardinality() == 6
    assert three.concatenate(many).cardinality() == INFINITE
    assert some.concatenate(many).cardinality() == INFINITE
    assert some.concatenate(three).cardinality() == UNKNOWN


def test_something_else_than_a_dataset_is_named():
    with pytest.raises(DatasetError, match=r"concatenate: dataset must be a Dataset, not \[1\]"):
        Dataset.range(3).concatenate([1])

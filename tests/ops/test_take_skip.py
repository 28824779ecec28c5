import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import INFINITE


@pytest.mark.parametrize("count", [-1, 0, 1, 5, 9, 20])
def test_skip_drops_the_first(check_states, count):
    check_states(lambda: Dataset.range(9).skip(count), list(range(9))[count if count >= 0 else 9 :])


def test_an_error_on_the_way_is_raised_and_does_not_count(check_states):
    def picky(x):
        if x == 1:
            raise ValueError("one")
        return x

    check_states(
        lambda: Dataset.range(6).map(picky).skip(3),
        [TransformError("map(picky)", 1, "ValueError: one"), 4, 5],
    )


def test_a_restored_skip_does_not_skip_again(counted):
    fn = counted(lambda x: x)
    it = iter(Dataset.range(100).map(fn).skip(50))
    next(it)
    state = it.state()
    fn.calls.clear()

    assert next(Dataset.range(100).map(fn).skip(50).iterator(state)) == 51
    assert fn.calls[0] == 51


def test_the_cardinality():
    nine = Dataset.range(9)

    assert [nine.skip(n).cardinality() for n in (0, 5, 20, -1)] == [9, 4, 0, 0]
    assert nine.repeat().skip(3).cardinality() == INFINITE


@pytest.mark.parametrize("count", [-2, 1.0, None, True])
def test_a_bad_count_is_named(count):
    with pytest.raises(DatasetError, match="skip: count must be an integer of at least -1, not "):
        Dataset.range(3).skip(count)

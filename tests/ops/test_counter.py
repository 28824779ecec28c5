import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE


def counter(start=0, step=1):
    return Dataset.counter(start, step)


@pytest.mark.quick(2)
@pytest.mark.parametrize(("start", "step"), [(0, 1), (5, -3), (7, 0), (-(2**63), 2**40)])
def test_numbers_go_on_without_end(check_states, start, step):
    check_states(lambda: counter(start, step), [start + i * step for i in range(80)], limit=80)


def test_behind_the_largest_number_comes_the_smallest():
    assert list(counter(2**63 - 2).take(4)) == [2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1]


def test_there_is_no_end():
    assert counter().cardinality() == INFINITE


@pytest.mark.parametrize("wrong", [1.5, "1", None, True, 2**63, -(2**63) - 1])
def test_what_is_no_int64_is_an_error(wrong):
    with pytest.raises(DatasetError, match="start"):
        counter(wrong)
    with pytest.raises(DatasetError, match="step"):
        counter(0, wrong)

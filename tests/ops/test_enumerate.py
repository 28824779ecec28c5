import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError


@pytest.mark.parametrize("start", [0, 5, -3])
def test_enumerate_numbers_the_elements(check_states, start):
    check_states(
        lambda: Dataset.range(10, 19).enumerate(start), list(enumerate(range(10, 19), start))
    )


def test_numbers_are_int64_scalars():
    assert {type(number) for number, _ in Dataset.range(3).enumerate()} == {np.int64}


def test_an_element_may_be_a_tuple():
    assert list(Dataset.range(1).enumerate().enumerate()) == [(0, (0, 0))]


@pytest.mark.parametrize("start", [1.5, "a", None])
def test_a_bad_start_is_named(start):
    with pytest.raises(DatasetError, match="enumerate: start must be an integer"):
        Dataset.range(3).enumerate(start)


def test_a_start_beyond_int64_is_named():
    with pytest.raises(DatasetError, match="enumerate: start must fit int64"):
        Dataset.range(3).enumerate(2**63)


def test_a_number_beyond_int64_is_named_when_it_is_reached():
    it = iter(Dataset.range(9).enumerate(2**63 - 4))

    assert [number for number, _ in (next(it) for _ in range(4))][-1] == 2**63 - 1
    with pytest.raises(DatasetError, match="enumerate: element 4, .* does not fit int64"):
        next(it)

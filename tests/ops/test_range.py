import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError


@pytest.mark.parametrize("args", [(0,), (7,), (3, 9), (9, 3), (9, 3, -2), (0, 10, 3), (5, 5)])
def test_range_gives_what_pythons_gives(check_states, args):
    dataset = Dataset.range(*args)

    check_states(lambda: Dataset.range(*args), list(range(*args)))
    assert dataset.cardinality() == len(range(*args))


def test_elements_are_int64_scalars():
    assert {type(x) for x in Dataset.range(3)} == {np.int64}


def test_the_ends_of_int64_can_be_reached():
    low, high = -(2**63), 2**63 - 1

    assert list(Dataset.range(high - 2, high)) == [high - 2, high - 1]
    assert list(Dataset.range(low, high, 2**62)) == [low, low + 2**62, 0, 2**62]
    assert Dataset.range(low, high).cardinality() == 2**64 - 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((0, 5, 0), "step must not be 0"),
        ((1.5,), "stop must be an integer, not 1.5"),
        (("a", 3), "start must be an integer, not 'a'"),
        ((True,), "stop must be an integer, not True"),
        ((2**63,), "stop must fit int64"),
        ((), "give stop"),
        ((1, 2, 3, 4), "give stop"),
    ],
)
def test_bad_arguments_are_named(args, words):
    with pytest.raises(DatasetError, match=f"range: {words}"):
        Dataset.range(*args)

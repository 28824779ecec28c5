import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN


def sample(datasets, weights=None, seed=None, stop=False, rerandomize=True):
    return Dataset.sample_from_datasets(datasets, weights, seed, stop, rerandomize)


def ranges(*sizes):
    return [Dataset.range(100 * i, 100 * i + n) for i, n in enumerate(sizes)]


@pytest.mark.quick(2)
@pytest.mark.parametrize("weights", [None, [0.5, 0.2, 0.3], [1, 0, 9]])
@pytest.mark.parametrize("seed", [None, 3])
def test_all_elements_come_each_dataset_in_its_order(check_states, weights, seed):
    whole = check_states(lambda: sample(ranges(20, 7, 13), weights, seed))

    values = [int(value) for _, value in whole]
    for i, size in enumerate((20, 7, 13)):
        drawn = weights is None or weights[i] > 0
        part = [value for value in values if value // 100 == i]
        assert part == list(range(100 * i, 100 * i + size * drawn))


def test_with_stop_the_first_that_is_empty_ends_all(check_states):
    whole = check_states(lambda: sample(ranges(30, 5), seed=1, stop=True))

    values = [int(value) for _, value in whole]
    assert len([value for value in values if value >= 100]) == 5
    assert len(values) < 35


@pytest.mark.slow
def test_weights_are_probabilities():
    endless = [Dataset.range(i, i + 1).repeat() for i in range(3)]

    drawn = np.array(list(sample(endless, [0.6, 0.3, 0.1], seed=5).take(10_000)))

    shares = np.bincount(drawn, minlength=3) / len(drawn)
    assert abs(shares - [0.6, 0.3, 0.1]).max() < 0.02


def test_passes_differ_unless_they_shall_not():
    def passes(rerandomize):
        both = list(sample(ranges(15, 15), seed=2, rerandomize=rerandomize).repeat(2))
        return both[:30], both[30:]

    first, second = passes(rerandomize=True)
    assert first != second
    first, second = passes(rerandomize=False)
    assert first == second


def test_errors_belong_to_their_elements(check_states):
    def picky(x):
        if x % 5 == 2:
            raise ValueError("no")
        return x

    whole = check_states(
        lambda: sample([Dataset.range(10).map(picky), Dataset.range(100, 105)], seed=4)
    )

    failed = [outcome.text for outcome in whole if not isinstance(outcome, tuple)]
    assert len(whole) == 15
    assert failed == [str(TransformError("map(picky)", i, "ValueError: no")) for i in (2, 7)]


@pytest.mark.parametrize(
    "weights", [[1], [1, 2, 3], [0, 0], [-1, 2], [np.nan, 1], [np.inf, 1], "ab", [None, 1], 5]
)
def test_bad_weights_are_named(weights):
    with pytest.raises(DatasetError, match="weights"):
        sample(ranges(3, 3), weights)


def test_there_must_be_datasets():
    with pytest.raises(DatasetError, match="must not be empty"):
        sample([])


def test_how_many_there_are():
    assert sample(ranges(3, 4)).cardinality() == 7
    assert sample(ranges(3, 4), stop=True).cardinality() == UNKNOWN
    assert sample([Dataset.range(3).repeat(), *ranges(3)]).cardinality() == INFINITE

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, TransformError
from penstock.graph.node import UNKNOWN


def choose(datasets, choices, stop=True):
    return Dataset.choose_from_datasets(datasets, choices, stop)


def model(sizes, choices, stop):
    sources, out = [iter([10 * i + k for k in range(n)]) for i, n in enumerate(sizes)], []
    over = [False] * len(sizes)
    for choice in choices:
        if all(over):
            break
        element = next(sources[choice], None)
        if element is not None:
            out.append(element)
            continue
        over[choice] = True
        if stop:
            break
    return out


@pytest.mark.slow
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    data=st.data(),
    stop=st.booleans(),
)
def test_elements_come_as_chosen(check_states, sizes, data, stop):
    choices = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=20))
    datasets = [Dataset.range(10 * i, 10 * i + n) for i, n in enumerate(sizes)]

    check_states(
        lambda: choose(datasets, Dataset.from_tensor_slices(np.array(choices)), stop),
        model(sizes, choices, stop),
    )


def test_errors_belong_to_their_elements(check_states):
    def picky(x):
        if x == 1:
            raise ValueError("no")
        return x

    datasets = [Dataset.range(3).map(picky), Dataset.range(10, 13)]

    check_states(
        lambda: choose(datasets, Dataset.from_tensor_slices(np.array([0, 1, 0, 1, 0]))),
        [0, 10, TransformError("map(picky)", 1, "ValueError: no"), 2, 11],
    )


@pytest.mark.parametrize("wrong", [2, -1])
def test_a_choice_of_no_dataset_is_an_error_that_costs_this_choice(check_states, wrong):
    datasets = [Dataset.range(3), Dataset.range(10, 13)]

    check_states(
        lambda: choose(datasets, Dataset.from_tensor_slices(np.array([0, 1, wrong, 1, 0]))),
        [
            0,
            10,
            ElementError(
                "choose_from_datasets: a choice must be an integer from 0 to 1, not " + str(wrong)
            ),
            11,
            1,
        ],
    )


def test_a_choice_must_be_an_integer():
    with pytest.raises(ElementError, match="float64"):
        list(choose([Dataset.range(3)], Dataset.from_tensor_slices(np.array([0.0]))))


def test_there_must_be_datasets():
    with pytest.raises(DatasetError, match="must not be empty"):
        choose([], Dataset.range(3))


def test_how_many_there_are_is_not_known():
    assert choose([Dataset.range(3)], Dataset.range(1)).cardinality() == UNKNOWN
    assert choose([Dataset.range(3)], Dataset.range(0)).cardinality() == 0


def test_every_task_plays_all_choices(check_states):
    datasets = [Dataset.range(10), Dataset.range(100, 110)]
    choices = Dataset.from_tensor_slices(np.array([0, 1, 1]))

    check_states(
        lambda: choose(datasets, choices),
        [4, 102, 103],
        logs=[[(4, 6), None], [(2, 5), None]],
        streams={".1": 0, ".2": 1},
    )


def test_what_is_no_dataset_is_named():
    for wrong in (5, [1], [Dataset.range(1), None]):
        with pytest.raises(DatasetError, match="list of Datasets"):
            choose(wrong, Dataset.range(1))
    with pytest.raises(DatasetError, match="choice_dataset"):
        choose([Dataset.range(1)], [0])

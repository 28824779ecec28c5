"""Samples of map-style datasets, which may be fetched several at a time."""

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError


class Samples:
    def __len__(self):
        return 12

    def __getitem__(self, i):
        if i == 7:
            raise KeyError("the seventh")
        return {"x": np.full(2, i), "y": i}


class Several(Samples):
    def __init__(self):
        self.asked = []

    def __getitems__(self, numbers):
        self.asked.append(numbers)
        return [self[number] for number in numbers]


class DataLoader:
    """Named as that of PyTorch."""


def plain(elements):
    found = []
    while True:
        try:
            found.append(int(next(elements)["y"]))
        except StopIteration:
            return found
        except TransformError as error:
            found.append((error.operator, error.number))


@pytest.mark.parametrize("kind", [Samples, Several])
def test_samples_come_in_order_and_one_that_fails_is_an_error_in_its_place(kind):
    elements = iter(Dataset.from_torch(kind()))

    wanted = [*range(7), (f"from_torch({kind.__name__})", 7), *range(8, 12)]
    assert plain(elements) == wanted


def test_several_samples_are_asked_for_at_once():
    samples = Several()

    batch = next(iter(Dataset.from_torch(samples).take(6).batch(6)))

    assert batch["y"].tolist() == list(range(6))
    assert max(map(len, samples.asked)) > 1


@pytest.mark.parametrize("step", [0, 3, 6])
def test_a_state_is_an_index(step):
    dataset = Dataset.from_torch(Several()).ignore_errors()
    elements = iter(dataset)
    before = [int(next(elements)["y"]) for _ in range(step)]

    rest = [int(each["y"]) for each in dataset.iterator(elements.state())]

    assert before + rest == [*range(7), *range(8, 12)]


def test_workers_split_them_by_index(cluster):
    read = Dataset.from_torch(Several()).skip(8).distribute("distributed_epoch", cluster.target)

    assert sorted(int(each["y"]) for each in read) == [8, 9, 10, 11]


def test_what_is_not_map_style_is_refused_with_what_to_use():
    with pytest.raises(DatasetError, match="not the DataLoader around it"):
        Dataset.from_torch(DataLoader())
    with pytest.raises(DatasetError, match="must be map-style.*from_generator"):
        Dataset.from_torch(iter(()))


def test_all_samples_can_be_shuffled_by_their_numbers():
    shuffled = Dataset.from_torch(Several()).global_shuffle(seed=1).ignore_errors()

    assert sorted(int(each["y"]) for each in shuffled) == [*range(7), *range(8, 12)]

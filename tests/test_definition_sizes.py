import threading
from functools import partial

import numpy as np

from penstock.dataset.dataset import Dataset
from penstock.definition import largest_part

NUMBERS = np.zeros(100_000)


class Model:
    def __init__(self):
        self.weights = {"first": np.zeros(10), "second": b"x" * 100_000}

    def __call__(self, x):
        return x


def test_a_variable_around_the_function_is_named():
    table = np.zeros(50_000)

    def look_up(i):
        return table[int(i)]

    told = largest_part(Dataset.range(2).map(lambda x: x).map(look_up).batch(2).node)

    assert told.startswith("closure variable 'table' of map(look_up) takes 40")


def test_a_global_is_named():
    def look_up(i):
        return NUMBERS[int(i)]

    assert largest_part(Dataset.range(2).map(look_up).node).startswith(
        "global 'NUMBERS' of map(look_up) takes 80"
    )


def test_an_argument_and_an_attribute_are_named():
    given = Dataset.range(2).map(partial(np.add, np.zeros(5000)))
    held = Dataset.range(2).map(Model())

    assert largest_part(given.node).startswith("argument 0 of map(")
    assert largest_part(held.node).startswith(
        "key 'second' of attribute 'weights' of map(Model) takes 10"
    )


def test_many_small_parts_are_named_together():
    names = [f"name {i}" for i in range(5000)]

    assert largest_part(Dataset.range(2).map(lambda i: names[int(i)]).node).startswith(
        "closure variable 'names' of map("
    )


def test_data_of_a_source_are_its_own():
    told = largest_part(Dataset.from_tensor_slices(NUMBERS).map(lambda x: x).node)

    assert told == "data of from_tensor_slices takes 800000 bytes"


def test_a_part_that_cannot_be_sent_by_itself_counts_nothing():
    def function(x, big=b"y" * 1000, lock=threading.Lock):
        return x

    assert "default of 'big'" in largest_part(Dataset.range(2).map(function).node)

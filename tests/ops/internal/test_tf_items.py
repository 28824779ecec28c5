"""`from_tf`, as far as it needs no TensorFlow: with what stands for it."""

import sys
import types

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingExtra, TransformError
from penstock.graph.node import UNKNOWN

built = []


class FakePipeline:
    """As much of `tf.data.Dataset` as is called."""

    def __init__(self, size, known=True, start=0):
        self._size, self._known, self._start = size, known, start
        built.append(start)

    def cardinality(self):
        return np.int64(self._size if self._known else -2)

    def skip(self, count):
        return FakePipeline(self._size, self._known, self._start + count)

    def as_numpy_iterator(self):
        return iter(np.arange(self._start, self._size))


@pytest.fixture(autouse=True)
def tensorflow(monkeypatch):
    fake = types.ModuleType("tensorflow")
    fake.data = types.SimpleNamespace(Dataset=FakePipeline)
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    built.clear()


def plain(elements):
    return [int(each) for each in elements]


def test_a_known_size_is_an_index():
    dataset = Dataset.from_tf(lambda: FakePipeline(9))
    elements = iter(dataset)
    before = [int(next(elements)) for _ in range(4)]

    rest = plain(dataset.iterator(elements.state()))

    assert dataset.cardinality() == 9
    assert before + rest == list(range(9))


def test_a_run_builds_the_pipeline_once_and_reads_on():
    dataset = Dataset.from_tf(lambda: FakePipeline(500), size=500)

    assert plain(dataset) == list(range(500))
    assert built == [0]


def test_an_unknown_size_is_a_stream_that_passes_over_what_was_read():
    dataset = Dataset.from_tf(lambda: FakePipeline(9, known=False))
    elements = iter(dataset)
    next(elements), next(elements)
    state = elements.state()
    built.clear()

    assert dataset.cardinality() == UNKNOWN
    assert plain(dataset.iterator(state)) == list(range(2, 9))
    assert built[-2:] == [0, 2]


def test_a_size_that_is_given_builds_nothing_here():
    def fails():
        raise AssertionError("it was built")

    assert Dataset.from_tf(fails, size=3).cardinality() == 3
    assert Dataset.from_tf(fails, size=UNKNOWN).cardinality() == UNKNOWN


def test_a_pipeline_that_is_shorter_than_its_size_is_an_error_at_the_element():
    elements = iter(Dataset.from_tf(lambda: FakePipeline(3), size=5))
    assert [int(next(elements)) for _ in range(3)] == [0, 1, 2]

    with pytest.raises(TransformError, match="element 3"):
        next(elements)


def test_what_builds_no_pipeline_is_refused():
    with pytest.raises(DatasetError, match="give a function that builds"):
        Dataset.from_tf(FakePipeline(3))
    with pytest.raises(DatasetError, match="must return a tf.data.Dataset, not int"):
        Dataset.from_tf(lambda: 3)
    with pytest.raises(DatasetError, match="size must be an integer"):
        Dataset.from_tf(lambda: FakePipeline(3), size="many")


def test_without_tensorflow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)

    with pytest.raises(MissingExtra, match=r"penstock\[tensorflow\]"):
        Dataset.from_tf(lambda: 3)


def test_elements_cannot_be_shuffled_by_their_numbers():
    with pytest.raises(DatasetError, match="global_shuffle"):
        Dataset.from_tf(lambda: FakePipeline(9), size=9).global_shuffle(seed=1)

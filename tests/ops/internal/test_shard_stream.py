"""Datasets that can only be iterated over are split by their shards."""

import pytest

from penstock.dataset.dataset import Dataset


class Stream:
    """As much of a `datasets.IterableDataset` as is called."""

    features = None

    def __init__(self, shards):
        self._shards = shards

    @property
    def num_shards(self):
        return len(self._shards)

    def with_format(self, _):
        return self

    def shard(self, num_shards, index):
        assert num_shards == len(self._shards)
        return Stream([self._shards[index]])

    def __iter__(self):
        return iter([{"x": x, "all": [x, x]} for shard in self._shards for x in shard])


@pytest.mark.parametrize("shards", [[[0, 1, 2]], [[0, 1], [], [2, 3, 4], [5]]])
def test_each_shard_is_read_once_and_a_state_goes_on_within_one(shards):
    dataset = Dataset.from_huggingface(Stream(shards))
    whole = [int(each["x"]) for each in dataset]
    for taken in range(len(whole)):
        elements = iter(dataset)
        before = [int(next(elements)["x"]) for _ in range(taken)]

        rest = [int(each["x"]) for each in dataset.iterator(elements.state())]

        assert before + rest == whole == [x for shard in shards for x in shard]


def test_workers_split_it_by_shards(cluster):
    dataset = Dataset.from_huggingface(Stream([[1, 2], [3], [4, 5, 6]]))
    read = dataset.distribute("distributed_epoch", cluster.target)

    assert sorted(int(each["x"]) for each in read) == [1, 2, 3, 4, 5, 6]


class Counting:
    """A step of the library that counts the examples of the whole stream."""

    ex_iterable = None


@pytest.mark.parametrize("name", ["_ex_iterable", "_distributed"])
def test_what_counts_examples_or_is_one_nodes_part_is_read_whole(name):
    stream = Stream([[0, 1], [2, 3]])
    setattr(stream, name, Counting())

    assert Dataset.from_huggingface(stream).node.inputs[0].cardinality == 1

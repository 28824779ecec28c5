import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.protocol.types import SHARD_HINT


@pytest.mark.parametrize("size", [0, 1, 7, 12])
@pytest.mark.parametrize(("shards", "index"), [(1, 0), (3, 0), (3, 2), (5, 4), (20, 19)])
def test_shard_keeps_every_nth(check_states, size, shards, index):
    dataset = Dataset.range(size).shard(shards, index)
    expected = list(range(size))[index::shards]

    check_states(lambda: Dataset.range(size).shard(shards, index), expected, blocks=(1, 2, 64))
    assert dataset.cardinality() == len(expected)


def test_shards_may_be_many(check_states):
    check_states(lambda: Dataset.range(3000).shard(1000, 7), [7, 1007, 2007])


def test_shards_of_the_infinite_are_infinite():
    assert Dataset.range(3).repeat().shard(2, 0).cardinality() == INFINITE


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((0, 0), "num_shards must be an integer of at least 1, not 0"),
        ((3, -2), "index must be an integer of at least 0, not -2"),
        ((3, SHARD_HINT), r"SHARD_HINT stands for num_shards, .* write shard\(SHARD_HINT, 0\)"),
        ((-2, 0), "num_shards must be an integer of at least 1, not -2"),
        ((3, 3), r"index must be below num_shards \(3\), not 3; the first shard is 0"),
    ],
)
def test_bad_arguments_are_named(args, words):
    with pytest.raises(DatasetError, match=f"shard: {words}"):
        Dataset.range(9).shard(*args)


def test_a_hint_has_no_elements_of_its_own():
    hinted = Dataset.range(0).shard(SHARD_HINT, 0)

    assert hinted.cardinality() == UNKNOWN
    with pytest.raises(DatasetError, match=r"shard\(SHARD_HINT, ...\) says where .*HINT divides"):
        iter(hinted)
    with pytest.raises(DatasetError, match="within a function of flat_map or interleave"):
        list(Dataset.range(1).flat_map(lambda _: Dataset.range(2).shard(SHARD_HINT, 0)))

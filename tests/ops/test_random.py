import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE
from penstock.protocol.types import SourceSlice


def random(seed=None, rerandomize=True):
    return Dataset.random(seed, rerandomize)


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", [None, 0, -1, 2**62])
def test_random_numbers_replay_from_a_state(check_states, seed):
    check_states(lambda: random(seed), limit=80)


def test_numbers_are_even_over_their_range():
    drawn = np.array(list(random(1).take(20_000)))

    assert drawn.dtype == np.int64
    assert 0 <= drawn.min() < drawn.max() < 2**32
    counts = np.bincount(drawn >> 28, minlength=16)
    assert abs(counts - 20_000 / 16).max() < 200


def test_a_seed_gives_the_same_numbers_again():
    assert list(random(5).take(9)) == list(random(5).take(9)) != list(random(6).take(9))
    assert list(random().take(9)) != list(random().take(9))


def test_passes_differ_unless_they_shall_not():
    once = list(random(5).take(4).repeat(2))
    same = list(random(5, rerandomize=False).take(4).repeat(2))

    assert once[:4] != once[4:]
    assert same[:4] == same[4:]


def test_there_is_no_end():
    assert random().cardinality() == INFINITE


@pytest.mark.parametrize("wrong", [1.5, "1", True])
def test_a_seed_is_an_integer(wrong):
    with pytest.raises(DatasetError, match="seed"):
        random(wrong)


def test_its_parts_are_numbers_of_the_whole_and_only_an_end_makes_them_end():
    some = list(random(5).take(20))

    def part(*cut):
        return Dataset(random(5).node.part(SourceSlice(*cut)))

    assert list(part(2, 20, 3)) == some[2:20:3]
    assert len(part(2, 20, 3)) == 6
    assert list(part(4, None, 2).take(8)) == some[4::2]
    assert part(4, None, 2).cardinality() == INFINITE
    assert list(part(5, 5)) == []

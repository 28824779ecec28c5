import numpy as np
import pytest

from penstock.dataset.block_reader import BlockReader
from penstock.dataset.dataset import Dataset
from penstock.engine.rows import Rows
from penstock.errors import Closed, TransformError


def blocks(reader):
    found = []
    while len(block := reader.block()):
        found.append(block)
    return found


def test_blocks_have_all_elements_in_order():
    with BlockReader(Dataset.range(1000).node) as reader:
        found = blocks(reader)

    assert len(found) < 1000
    assert [int(x) for block in found for x in block] == list(range(1000))


def test_a_source_of_rows_gives_rows():
    with BlockReader(Dataset.from_tensor_slices(np.arange(9)).node) as reader:
        assert isinstance(reader.block(), Rows)


def test_a_state_after_a_block_continues_after_it():
    node = Dataset.range(100).map(lambda x: x).node
    reader = BlockReader(node)
    taken = [*reader.block(), *reader.block(), *reader.block()]
    with BlockReader(node, reader.state()) as again:
        taken += [x for block in blocks(again) for x in block]

    assert list(map(int, taken)) == list(range(100))


def test_a_block_has_the_elements_that_next_has_not_given():
    with BlockReader(Dataset.range(7).batch(2).unbatch().node) as reader:
        taken = [next(reader), *(x for block in blocks(reader) for x in block)]

    assert list(map(int, taken)) == list(range(7))


def test_an_error_comes_in_the_place_of_its_element():
    dataset = Dataset.range(6).map(lambda x: 1 // (x - 3))
    reader, taken, failed = BlockReader(dataset.node), 0, 0
    while taken + failed < 6:
        try:
            taken += len(reader.block())
        except TransformError:
            assert taken == 3
            failed += 1

    assert (taken, failed, len(reader.block())) == (5, 1, 0)


def test_a_closed_reader_says_so():
    reader = BlockReader(Dataset.range(6).node)
    reader.close()

    with pytest.raises(Closed):
        reader.block()

"""Blocks of rows: the elements they stand for, and how they are stacked and joined."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.element import collate, leaves
from penstock.engine.context import Context
from penstock.engine.rows import ArrayTable, Rows, elements_of, gathered, joined, stacks_alike
from penstock.errors import ElementError
from penstock.graph.run import open_root

NEST = {"x": np.arange(40.0).reshape(10, 2, 2), "pair": (np.arange(10), np.arange(10) > 4)}


def table(nest=NEST):
    return ArrayTable(nest, leaves(nest))


@pytest.mark.parametrize("which", [range(2, 5), range(1, 9, 3), np.array([7, 0, 7])])
def test_stacked_rows_are_what_collate_makes_of_the_elements(which):
    rows = Rows(table(), which)

    stacked, collated = rows.stacked(), collate(rows.elements())

    assert stacked.keys() == collated.keys()
    for mine, other in zip(leaves(stacked), leaves(collated), strict=True):
        assert (mine.dtype, mine.shape, mine.tolist()) == (other.dtype, other.shape, other.tolist())
        assert mine.flags.writeable
        assert mine.flags.c_contiguous
        assert not any(np.shares_memory(mine, leaf) for leaf in leaves(NEST))


def test_a_column_in_another_order_is_not_copied_whole():
    column = np.asfortranarray(np.arange(12).reshape(6, 2))

    assert gathered(column, np.array([5, 1])).tolist() == [[10, 11], [2, 3]]
    assert gathered(column, np.array([5, 1])).flags.c_contiguous


def test_rows_are_a_sequence_of_elements():
    rows = Rows(ArrayTable(NEST["pair"][0], [NEST["pair"][0]]), range(3, 9))

    assert len(rows) == 6
    assert [rows[0], rows[-1]] == [3, 8]
    assert list(rows[1:4]) == [4, 5, 6]
    assert list(rows[::2][1:]) == [5, 7]
    assert not rows[6:]


def test_blocks_of_rows_stay_rows_when_they_are_joined():
    numbers = np.arange(10)
    one, other = ArrayTable(numbers, [numbers]), ArrayTable(numbers, [numbers])
    foreign = np.arange(3)

    run = joined(Rows(one, range(2)), Rows(other, range(2, 4)))
    mixed = joined(run, Rows(ArrayTable(foreign, [foreign]), range(1)))

    assert isinstance(run, Rows)
    assert run.which == range(4)
    assert joined(Rows(one, range(1)), Rows(one, np.array([5]))).numbers().tolist() == [0, 5]
    assert list(mixed) == [0, 1, 2, 3, 0]
    assert mixed.stacked().tolist() == [0, 1, 2, 3, 0]
    assert joined([9], Rows(one, range(1))) == [9, 0]


def test_a_list_that_is_joined_to_nothing_is_not_kept():
    block = [1, 2]

    out = joined([], block)
    out.append(3)

    assert block == [1, 2]


@pytest.mark.parametrize("dtype", [">i4", "O", "V3", [("a", "i4")]])
def test_rows_that_would_stack_to_another_dtype_are_made_as_elements(dtype):
    assert not stacks_alike(np.empty(3, dtype))


@pytest.mark.parametrize(
    "chain",
    [
        lambda d: d,
        lambda d: d.shuffle(4, seed=3),
        lambda d: d.take(7).skip(2),
        lambda d: d.shard(3, 1),
        lambda d: d.repeat(2),
        lambda d: d.concatenate(d),
    ],
)
@pytest.mark.parametrize("source", [Dataset.range(10), Dataset.from_tensor_slices(np.arange(10))])
def test_operators_that_choose_pass_rows_on(source, chain):
    rows, elements = (open_root(chain(source).node, Context.local(5)) for _ in range(2))

    while block := rows.rows(3):
        assert isinstance(block, Rows)
        assert elements_of(block) == elements.block(3)

    assert elements.block(3) == []


@given(
    tables=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=2, max_size=5),
    chosen=st.data(),
)
def test_rows_of_several_tables_are_gathered_as_those_of_one(tables, chosen):
    arrays = [np.array(table) for table in tables]
    blocks = [Rows(ArrayTable(a, [a]), range(len(a))) for a in arrays]
    whole = np.concatenate(arrays)
    together = functools.reduce(joined, blocks)
    low = chosen.draw(st.integers(0, len(whole) - 1))
    numbers = np.array(chosen.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1)))

    assert list(together) == whole.tolist()
    assert list(together[low:]) == whole[low:].tolist()
    assert together[low:].stacked().tolist() == whole[low:].tolist()
    assert Rows(together.table, numbers).stacked().tolist() == whole[numbers].tolist()
    assert list(joined(together[low:], blocks[0])) == [*whole[low:].tolist(), *tables[0]]


def test_rows_of_tables_that_are_not_alike_are_stacked_as_their_elements_would_be():
    ints, floats = np.arange(3), np.arange(3.0)
    mixed = joined(
        Rows(ArrayTable(ints, [ints]), range(3)), Rows(ArrayTable(floats, [floats]), range(3))
    )

    with pytest.raises(ElementError, match="int64 is followed by float64"):
        mixed.stacked()

"""Which element of one order is whose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.protocol.rounds import Stride


def test_consumer_k_gets_every_nth_element_from_its_place_on():
    stride = Stride(3, place=7)

    assert [stride.index(number) for number in range(4)] == [1, 2, 0, 1]
    assert list(stride.numbers(1, 0, 8)) == [0, 3, 6]
    assert list(stride.numbers(0, 3, 8)) == [5]
    assert stride.numbers(0, 3, 5) == NO_RANGES == stride.numbers(0, 5, 5)


def test_a_single_consumer_gets_all_as_one_range():
    assert Stride(1, place=4).numbers(0, 2, 9) == RangeSet.of((2, 9))


def test_whose_an_element_is_cannot_be_asked_before_the_place_is_known():
    with pytest.raises(ValueError, match="whose element 5 is cannot be known yet"):
        Stride(2).index(5)


@given(st.integers(1, 9), st.integers(0, 50), st.integers(0, 40), st.integers(0, 60))
def test_consumers_divide_all_numbers_among_themselves(consumers, place, start, count):
    stride, stop = Stride(consumers, place), start + count
    each = [list(stride.numbers(index, start, stop)) for index in range(consumers)]

    assert sorted(number for numbers in each for number in numbers) == list(range(start, stop))
    assert all(stride.index(n) == index for index, numbers in enumerate(each) for n in numbers)

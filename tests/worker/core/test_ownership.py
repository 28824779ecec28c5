"""Where each number of an attempt is."""

import pytest

from penstock.protocol.ranges import NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.types import ReaderId
from penstock_worker.core.ownership import Ownership

A, B = ReaderId(1), ReaderId(2)


def runs(*spans):
    return RangeSet.of(*spans)


@pytest.fixture
def places():
    """Ten numbers that are there, of which one reader holds the first four."""
    places = Ownership(0, NOTHING_ACKED, {A: runs(), B: runs()})
    places.make(0, 10)
    places.send(A, runs((0, 4)))
    return places


def test_what_is_made_is_ready_until_it_is_sent(places):
    assert places.ready == runs((4, 10))
    assert places.holders == {A}


def test_what_is_taken_is_nowhere_else(places):
    assert places.take(runs((1, 3), (8, 9))) == runs((1, 3), (8, 9))

    assert places.held[A] == runs((0, 1), (3, 4))
    assert places.ready == runs((4, 8), (9, 10))
    assert places.take(runs((1, 3))) == runs()


def test_what_a_reader_does_not_list_any_more_is_ready_again(places):
    assert places.settle(A, runs((0, 1))) == runs((1, 4))

    assert places.ready == runs((1, 10))


def test_only_what_a_reader_that_was_given_up_held_is_in_doubt(places):
    places.send(B, runs((4, 6)))

    places.part(B, given_up=False)
    assert places.doubted == 0
    places.part(A, given_up=True)
    assert places.doubted == 4
    assert places.ready == runs((0, 10))


def test_what_is_not_made_yet_is_reserved_for_its_holder():
    places = Ownership(0, AckedSet(2), {A: runs((0, 5))})
    assert places.held[A] == runs((2, 5))

    assert places.make(0, 8) == runs((2, 8))
    assert places.ready == runs((5, 8))
    assert places.stray(A, runs((0, 7))) == runs((5, 7))


def test_what_is_lent_and_given_back_has_gone_astray(places):
    places.lend(runs((0, 2)))

    places.settle(A, runs())

    assert places.astray == runs((0, 2))
    assert places.ready == runs((2, 10))

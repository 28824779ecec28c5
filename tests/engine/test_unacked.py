"""What is not acked yet of what a session gave."""

from penstock.engine.unacked import NOTHING_UNACKED, Unacked
from penstock.protocol.ranges import RangeSet


def test_what_is_owed_of_what_was_given_lies_in_the_runs_or_behind_the_tail():
    owed = Unacked(RangeSet.of((2, 4), (6, 7)), 9)

    assert owed.missing(12) == RangeSet.of((2, 4), (6, 7), (9, 12))
    assert owed.missing(3) == RangeSet.of((2, 3))
    assert not NOTHING_UNACKED.missing(100)


def test_what_either_of_two_owes_is_owed():
    both = Unacked(RangeSet.of((1, 2)), 8) | Unacked(RangeSet.of((4, 6)), 10)

    assert both == Unacked(RangeSet.of((1, 2), (4, 6)), 8)

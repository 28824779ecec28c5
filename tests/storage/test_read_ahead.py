from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.read_ahead import FIRST, LEAST, MOST, ReadAhead

SECONDS = st.floats(0, 1e4)


def ahead(delay, work):
    made = ReadAhead()
    made.arrived(delay)
    made.worked(work)
    return made.pieces


def test_the_number_is_fixed_until_something_was_measured():
    made = ReadAhead()
    assert made.pieces == FIRST
    made.arrived(1.0)
    assert made.pieces == FIRST


def test_as_many_pieces_are_in_flight_as_the_reader_needs_within_the_delay():
    assert ahead(delay=0.3, work=0.1) == 4
    assert ahead(delay=0.3, work=10.0) == LEAST
    assert ahead(delay=0.3, work=0.0) == MOST


def test_the_slowest_of_the_recent_pieces_counts_and_old_ones_do_not():
    made = ReadAhead()
    made.worked(0.1)
    for delay in (0.5, 0.1):
        made.arrived(delay)
    assert made.pieces == 6
    for _ in range(4):
        made.arrived(0.1)
    assert made.pieces == LEAST


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_a_longer_delay_or_a_faster_reader_never_asks_for_fewer(delay, more, work, less):
    assert LEAST <= ahead(delay, work) <= MOST
    assert ahead(delay, work) <= ahead(delay + more, work)
    assert ahead(delay, work) <= ahead(delay, min(work, less))

"""Runs of numbers behave as the sets they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=8,
)
runs = spans.map(lambda given: RangeSet.of(*given))
taken = st.builds(AckedSet, st.integers(0, 40), runs)


def as_set(value):
    return set(value.runs) if isinstance(value, AckedSet) else set(value)


@given(spans)
def test_runs_are_sorted_disjoint_and_do_not_touch(given):
    made = RangeSet.of(*given)

    assert as_set(made) == {n for start, stop in given for n in range(start, stop)}
    assert all(a < b for a, b in made.spans)
    assert all(one[1] < two[0] for one, two in zip(made.spans, made.spans[1:]))


@given(runs, runs)
def test_runs_join_meet_and_differ_as_sets(a, b):
    assert as_set(a | b) == as_set(a) | as_set(b)
    assert as_set(a - b) == as_set(a) - as_set(b)
    assert as_set(a & b) == as_set(a) & as_set(b)
    assert len(a) == len(as_set(a))
    assert bool(a) == bool(as_set(a))
    assert a | b == b | a


@given(taken, taken, runs, st.integers(0, 100))
def test_what_is_taken_is_joined_and_never_lost(a, b, more, number):
    joined = (a | b).plus(more)

    assert as_set(joined) == as_set(a) | as_set(b) | as_set(more)
    assert (number in joined) == (number in as_set(joined))
    assert joined.floor not in joined
    assert joined == (b | a).plus(more)


@given(st.lists(st.integers(1, 5), max_size=10), st.integers(0, 12))
def test_a_log_forgets_its_beginning_and_keeps_its_positions(sizes, position):
    log = SplitLog().plus(Split(0, size) for size in sizes)

    short = log.forget(min(position, log.stop))

    assert short.stop == log.stop
    assert short.after(position) == log.after(position)


def test_an_empty_split_ends_a_pass_and_a_negative_one_is_refused():
    assert not Split(3, 3)
    assert len(Split(3, 7)) == 4
    assert not NO_RANGES
    with pytest.raises(ValueError, match="negative"):
        Split(5, 3)

"""Runs of numbers behave as the sets they stand for."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.ranges import AckedSet, RangeSet

spans = st.lists(
    st.tuples(st.integers(0, 90), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=8,
)
many = st.sets(st.integers(0, 90), min_size=40).map(lambda ns: [(n, n + 1) for n in ns])
"""Most of them of more runs than `FEW`, which go another way."""
runs = (spans | many).map(lambda given: RangeSet.of(*given))
taken = st.builds(AckedSet, st.integers(0, 40), runs)


def as_set(value):
    return set(value.ranges) if isinstance(value, AckedSet) else set(value)


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
    joined = (a | b).union(more)

    assert as_set(joined) == as_set(a) | as_set(b) | as_set(more)
    assert (number in joined) == (number in as_set(joined))
    assert joined.floor not in joined
    assert joined == (b | a).union(more)

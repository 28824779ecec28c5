"""How much each source of a mixture gives in a span of turns: as many as a count of them says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DatasetError
from penstock.protocol.mixture import WeightStage
from penstock.protocol.turn_shares import shares_between
from penstock.protocol.turns import Turns

PARTS = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any).map(tuple)


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(1, 60), PARTS), max_size=4),
    parts=PARTS,
    first=st.integers(0, 200),
    span=st.integers(1, 100),
)
def test_each_source_gives_the_turns_that_it_has_whatever_changes(changes, parts, first, span):
    stages, begin = [WeightStage(0, parts)], 0
    for after, each in changes:
        begin += after
        stages.append(WeightStage(begin, each))
    turns = Turns(stages, (1000, 7, None), seed=5)

    found = shares_between(turns, ["a", "b", "c"], first, first + span)

    sources = turns.sources(first, first + span).tolist()
    assert [one.elements for one in found.sources] == [sources.count(s) for s in range(3)]
    assert sum(one.real for one in found.sources) == pytest.approx(1)
    assert sum(one.wanted for one in found.sources) == pytest.approx(1)
    assert all(abs(o.wanted - o.real) <= (len(stages) + 1) / span + 1e-9 for o in found.sources)


def test_a_plan_that_begins_later_knows_how_many_elements_came_before():
    whole = Turns([WeightStage(0, (1, 1)), WeightStage(100, (3, 1))], (30, None))
    later = Turns([WeightStage(100, (3, 1), whole.counts(100))], (30, None))

    assert shares_between(later, "ab", 120, 200) == shares_between(whole, "ab", 120, 200)
    with pytest.raises(DatasetError, match="turns before 100 are not known any more"):
        shares_between(later, "ab", 50, 200)


def test_a_span_ends_with_the_mixture():
    turns = Turns([WeightStage(0, (1, 1))], (10, 10), stop="drop")

    assert shares_between(turns, "ab", 15, 99).end == 20
    with pytest.raises(DatasetError, match="it ends before step 5, so it has no steps 5 to 6"):
        shares_between(turns, "ab", 20, 24, each=4)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.rounds import Grouped, Remainder, RoundEntry, RoundsView
from penstock.protocol.types import TaskId

small = st.integers(0, 40)


@pytest.mark.parametrize(
    ("remainder", "groups"), [(Remainder.DROP, 3), (Remainder.PAD, 4), (Remainder.REPEAT, 4)]
)
def test_a_short_last_group_counts_only_if_it_is_filled(remainder, groups):
    grouped = Grouped(4, 10, remainder)

    assert grouped.count(10 + 14, ended=False) == 3
    assert grouped.count(10 + 14, ended=True) == groups
    assert grouped.count(10 + 12, ended=True) == 3
    assert grouped.count(0, ended=False) == 0


def test_a_short_group_is_filled_with_its_own_elements():
    grouped = Grouped(4, 10, Remainder.PAD)

    assert [grouped.element(3, index, 24) for index in range(4)] == [22, 23, 22, 23]
    assert [grouped.element(3, index, None) for index in range(4)] == [22, 23, 24, 25]


@given(st.integers(1, 7), small, small, st.sampled_from(Remainder))
def test_each_element_is_of_one_consumer_and_one_group(consumers, base, made, remainder):
    grouped = Grouped(consumers, base, remainder)
    groups = grouped.count(base + made, ended=True)

    whose = [
        grouped.element(group, index, base + made)
        for group in range(groups)
        for index in range(consumers)
    ]

    left_out = made % consumers if remainder is Remainder.DROP else 0
    assert sorted(set(whose)) == list(range(base, base + made - left_out))
    whole = made // consumers * consumers
    assert whose[:whole] == list(range(base, base + whole))
    assert grouped.floor(made // consumers) == base + whole


def test_what_is_released_is_what_was_taken_and_what_is_listed():
    entries = tuple(RoundEntry(TaskId(1), group) for group in range(3))

    assert RoundsView(start=4, first=5, entries=entries).released == 8

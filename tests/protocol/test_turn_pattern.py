"""Each prefix of a pattern has less than one turn more or less than its share of each source."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.turn_pattern import pattern_of

PARTS = st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any).map(tuple)


@given(PARTS, st.integers(0, 3))
def test_each_prefix_is_less_than_one_turn_off(parts, seed):
    total = sum(parts)
    counts = [0] * len(parts)
    for turn, source in enumerate(pattern_of(parts, seed).sources, 1):
        counts[source] += 1
        for part, count in zip(parts, counts, strict=True):
            assert abs(count * total - turn * part) < total
    assert tuple(counts) == parts


@given(PARTS, st.integers(0, 3))
def test_the_turns_of_a_source_are_those_at_which_it_comes(parts, seed):
    pattern = pattern_of(parts, seed)

    for source, turns in enumerate(pattern.turns):
        assert list(turns) == [i for i, each in enumerate(pattern.sources) if each == source]


def test_seeds_change_the_order_and_nothing_else():
    orders = {tuple(pattern_of((3, 3, 3, 3), seed).sources) for seed in range(20)}

    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {(0,) * 3 + (1,) * 3 + (2,) * 3 + (3,) * 3}

"""Trainers of a cached job under random schedules of faults: no law breaks, each rule is needed."""

import pytest

from simulation.cache_mesh import judge
from simulation.cache_rules import RULES

CHUNK = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_no_law_of_the_cache_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + CHUNK) if (law := judge(seed)[0])}

    assert not broken, (
        "replay one with: python -m simulation --cache --seed N --schedules 1 --trace"
    )


@pytest.mark.parametrize("seed", [313, 749, 102524, 501260, 502828, 518568])
def test_a_schedule_that_once_broke_a_law_breaks_none(seed):
    assert not judge(seed)[0]


def test_a_schedule_of_trainers_is_played_again_alike():
    assert judge(7) == judge(7)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("rule", "first"),
    [
        ("absent_hold_nobody", 3), ("ahead_is_bounded", 5), ("buffered_stays_reserved", 3),
        ("evicts_for_somebody", 11), ("floors_are_a_trainers", 1), ("gone_is_made_again", 3),
        ("moves_to_the_oldest", 3), ("moves_to_the_slowest", 3), ("new_begins_at_oldest", 0),
        ("places_are_kept", 3), ("readers_keep_what_leaves", 0),
        ("requeued_and_gone_is_skipped", 52), ("skipped_are_counted", 3),
        ("trainers_are_apart", 3), ("waits_for_the_slowest", 3), ("window_is_bounded", 6),
    ],
)  # fmt: skip
def test_without_this_rule_of_the_cache_a_law_breaks(rule, first):
    """The search begins where one was found; all: python -m simulation --cache --without all."""
    with RULES[rule].broken():
        assert any(judge(seed)[0] for seed in range(first, first + 20))

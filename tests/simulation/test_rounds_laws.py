"""Coordinated reads under random schedules of faults: no law breaks, and each rule is needed."""

import pytest

from simulation.broken_rounds_rules import RULES
from simulation.rounds_mesh import judge

CHUNK = 25

RARE = {
    "barrier_blocks": 20, "begins_with_others": 90, "end_is_journaled": 330, "end_is_known": 50,
    "journal_first": 135, "lost_are_named": 95, "no_task_behind_the_end": 45,
    "ordered_is_closed": 25, "turns_are_lost": 280,
}  # fmt: skip
"""Where the search begins for rules that so many schedules do without."""


@pytest.mark.quick(1)
@pytest.mark.parametrize("first", range(0, 150, CHUNK))
def test_no_law_of_rounds_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + CHUNK) if (law := judge(seed)[0])}

    assert not broken, (
        "replay one with: python -m simulation --rounds --seed N --schedules 1 --trace"
    )


@pytest.mark.parametrize("seed", [500279, 500923, 501145, 501307, 501853, 504011, 511639])
def test_a_schedule_of_rounds_that_once_broke_a_law_breaks_none(seed):
    assert not judge(seed)[0]


def test_a_schedule_of_rounds_is_played_again_alike():
    assert judge(7) == judge(7)


@pytest.mark.quick(1)
@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_of_rounds_a_law_breaks(rule):
    first = RARE.get(rule, 0)
    with RULES[rule].broken():
        assert any(judge(seed)[0] for seed in range(first, first + 100))

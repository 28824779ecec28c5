"""The real cores under random schedules of faults: no law breaks, and each rule is needed."""

import pytest

from simulation.broken_rules import RULES
from simulation.mesh import judge
from simulation.plan import Plan

CHUNK = 25

RARE = {
    "barrier_blocks": 80, "gone_drops_buffer": 40, "journal_first": 20, "new_incarnation": 600,
    "subscribe_says_buffered": 20, "permission": 60, "readers_journaled": 10,
}  # fmt: skip
"""Where the search begins for rules that so many schedules do without."""


@pytest.mark.quick(2)
@pytest.mark.parametrize("first", range(0, 250, CHUNK))
def test_no_law_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + CHUNK) if (law := judge(seed)[0])}

    assert not broken, "replay one with: python -m simulation --seed N --schedules 1 --trace"


def test_a_schedule_is_played_again_alike():
    assert judge(7) == judge(7)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "rule",
    [
        "barrier", "barrier_blocks", "buffered_stays_reserved", "changes_since_known",
        "end_when_acked", "fence", "reports_of_what_waits",
        "gone_drops_buffer", "journal_first", "keep_until_acked", "log_first", "new_incarnation",
        "permission", "readers_journaled", "recall", "runner_numbers", "splits_by_position",
        "state_behind_floor", "subscribe_says_buffered", "unknown_is_new",
    ],
)  # fmt: skip
def test_without_this_rule_a_law_breaks(rule):
    """Others take thousands of schedules: python -m simulation --without all."""
    first = RARE.get(rule, 0)
    with RULES[rule].broken():
        assert any(judge(seed)[0] for seed in range(first, first + 150))


def test_a_worker_that_nobody_reaches_holds_the_pass_unless_its_tasks_move():
    def nobody_reaches_one(plan):
        return len(plan.never) == plan.readers and plan.kind == "calm"

    seed = next(seed for seed in range(10_000) if nobody_reaches_one(Plan.draw(seed)))
    assert not judge(seed)[0]

    with RULES["moves_to_readers"].broken():
        assert "does not end" in judge(seed)[0]


def test_what_a_reader_requeued_and_cannot_tell_the_worker_comes_to_others():
    assert not judge(1_001_663)[0]

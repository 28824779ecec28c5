"""The real cores under random schedules of faults: no law breaks, and each rule is needed.

One schedule again: ``python -m simulation --kind rounds --seed 7 --schedules 1 --trace``.
"""

from collections import Counter

import pytest

from simulation import broken_rounds_rules, saved_rules
from simulation.__main__ import Kind
from simulation.mixed_mesh import resume
from simulation.plan import Plan

CHUNK = 10


def laws(kind, first, count=CHUNK):
    """Return the laws that break in schedules of a kind, by seed."""
    seeds = range(first, first + count)
    return {seed: law for seed in seeds if (law := kind.judge(seed)[0])}


def slow_but(quick, cases):
    """Return parameters: all but the first ones, so many of each kind, are slow."""
    seen, params = Counter(), []
    for kind, *rest in cases:
        seen[kind] += 1
        marks = [pytest.mark.slow] if seen[kind] > quick.get(kind, 0) else []
        params.append(pytest.param(kind, *rest, marks=marks))
    return params


SCHEDULES = dict.fromkeys(Kind, 150) | {Kind.PLAIN: 250, Kind.CACHE: 125, Kind.SAVED: 300}


@pytest.mark.parametrize(
    ("kind", "first"),
    slow_but(
        {Kind.PLAIN: 1, Kind.ROUNDS: 1, Kind.STRIDED: 1, Kind.MIXED: 1, Kind.SAVED: 3},
        [(kind, first) for kind, many in SCHEDULES.items() for first in range(0, many, CHUNK)],
    ),
)
def test_no_law_breaks_whatever_fails(kind, first):
    assert not laws(kind, first)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        (Kind.PLAIN, 1_001_663),  # what a reader requeued and cannot tell the worker
        *((Kind.CACHE, seed) for seed in (313, 749, 102524, 501260, 502828, 518568)),
        *((Kind.ROUNDS, seed) for seed in (500279, 500923, 501145, 501307)),
        *((Kind.ROUNDS, seed) for seed in (501853, 504011, 511639)),
    ],
)
def test_a_schedule_that_once_broke_a_law_breaks_none(kind, seed):
    assert not kind.judge(seed)[0]


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", Kind)
def test_a_schedule_is_played_again_alike(kind):
    assert kind.judge(7) == kind.judge(7)


PLAIN = {
    "barrier": 0, "barrier_blocks": 80, "buffered_stays_reserved": 0, "changes_since_known": 0,
    "end_when_acked": 0, "fence": 0, "reports_of_what_waits": 0, "gone_drops_buffer": 40,
    "journal_first": 20, "keep_until_acked": 0, "log_first": 0, "new_incarnation": 600,
    "permission": 60, "readers_journaled": 10, "recall": 0, "runner_numbers": 0,
    "splits_by_position": 0, "state_behind_floor": 0, "subscribe_says_buffered": 20,
    "unknown_is_new": 0,
}  # fmt: skip
"""Where the search begins for a rule. Others take thousands of schedules: ``--without all``."""

ROUNDS = dict.fromkeys(broken_rounds_rules.RULES, 0) | {
    "barrier_blocks": 20, "begins_with_others": 90, "end_is_journaled": 330, "end_is_known": 50,
    "journal_first": 135, "lost_are_named": 95, "no_task_behind_the_end": 45,
    "ordered_is_closed": 25, "turns_are_lost": 280,
}  # fmt: skip
CACHE = {
    "absent_hold_nobody": 3, "ahead_is_bounded": 5, "buffered_stays_reserved": 3,
    "evicts_for_somebody": 11, "floors_are_a_trainers": 1, "gone_is_made_again": 3,
    "moves_to_the_oldest": 3, "moves_to_the_slowest": 3, "new_begins_at_oldest": 0,
    "places_are_kept": 3, "readers_keep_what_leaves": 0, "requeued_and_gone_is_skipped": 52,
    "skipped_are_counted": 3, "trainers_are_apart": 3, "waits_for_the_slowest": 3,
    "window_is_bounded": 6,
}  # fmt: skip
SAVED = dict.fromkeys(saved_rules.RULES, 0) | {"one_save_is_followed": 30}
BROKEN = [
    (Kind.PLAIN, PLAIN, 150),
    (Kind.ROUNDS, ROUNDS, 100),
    (Kind.CACHE, CACHE, 20),
    (Kind.SAVED, SAVED, 100),
]


@pytest.mark.parametrize(
    ("kind", "rule", "first", "count"),
    slow_but(
        {Kind.PLAIN: 1, Kind.ROUNDS: 1, Kind.SAVED: 2},
        [(kind, *rule, count) for kind, rules, count in BROKEN for rule in rules.items()],
    ),
)
def test_without_this_rule_a_law_breaks(kind, rule, first, count):
    with kind.broken(rule):
        assert any(kind.judge(seed)[0] for seed in range(first, first + count))


RECORDS, ENTRIES = "penstock_dispatcher.core.records", "penstock_dispatcher.core.worker_entries"
MIXTURE = "penstock_dispatcher.core.mixture_record"
ELSEWHERE = [
    (Kind.STRIDED, f"{RECORDS}.IterationRecord.count", lambda one, total: None, ""),
    (
        Kind.STRIDED,
        "penstock.protocol.rounds.Stride.index",
        lambda one, n: n % one.consumers,
        "order",
    ),
    (
        Kind.ORDERED,
        "penstock.reader.core.task_order.TaskStream.exhausted",
        property(lambda _: True),
        "order: ",
    ),
    (Kind.STATIC, f"{ENTRIES}.may_run", lambda *args: list(args[2]), "which has another one"),
    (Kind.MIXED, f"{MIXTURE}.MixtureRecord.changed_stages", lambda *_: (), "consumed"),
]


@pytest.mark.quick(1)
@pytest.mark.parametrize(("kind", "name", "wrong", "said"), ELSEWHERE, ids=range(5))
def test_without_this_part_of_an_order_or_of_fixed_parts_a_law_breaks(
    kind, name, wrong, said, monkeypatch
):
    monkeypatch.setattr(name, wrong)

    judged = (kind.judge(seed)[0] for seed in range(60))
    assert any(law and said in law for law in judged)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (3, 8)])
def test_ranks_go_on_with_the_recorded_sequence_from_67_points_as_other_ranks(first, then):
    told = sum((resume(seed, first, then) for seed in range(80)), Counter())

    assert told["restores"] >= 67
    assert told["weights changed"] >= 67


def test_a_change_of_weights_that_was_confirmed_and_not_yet_written_is_missed():
    with Kind.MIXED.broken("journal_first"):
        assert "was confirmed, and is lost" in Kind.MIXED.judge(37)[0]


def test_a_worker_that_nobody_reaches_holds_the_pass_unless_its_tasks_move():
    def nobody_reaches_one(plan):
        return len(plan.never) == plan.readers and plan.kind == "calm"

    seed = next(seed for seed in range(10_000) if nobody_reaches_one(Plan.draw(seed)))
    assert not laws(Kind.PLAIN, seed, 1)

    with Kind.PLAIN.broken("moves_to_readers"):
        assert "does not end" in laws(Kind.PLAIN, seed, 1)[seed]

"""Plans of every kind follow from their seeds, and leave nothing out."""

import pytest

from chaos.draws import OF_SAVES, READERS, draw
from chaos.plan import DYNAMIC, Back, Cached, Kind, Ordered, Rounds, Saved, random_plan
from chaos.weights import PIPELINE

SEEDS = range(300)


def test_plain_plans_are_as_they_were():
    assert [draw("plain", seed) for seed in SEEDS] == [random_plan(seed) for seed in SEEDS]


@pytest.mark.parametrize(("kind", "sharing"), [("rounds", Rounds), ("cache", Cached)])
def test_all_but_saving_is_done_to_those_who_share(kind, sharing):
    plans = [draw(kind, seed) for seed in SEEDS]
    faults = [fault for plan in plans for life in plan.lives for fault in life.faults]

    assert plans == [draw(kind, seed) for seed in SEEDS]
    assert {fault.kind for fault in faults} == set(Kind) - {Kind.SAVE, Kind.SET_WEIGHTS, *OF_SAVES}
    assert sum(fault.kind in READERS for fault in faults) > len(faults) / 5
    assert {type(plan.sharing) for plan in plans} == {sharing}


def test_consumers_come_back_in_both_ways_and_always():
    faults = [f for seed in SEEDS for f in draw("rounds", seed).lives[0].faults]
    away = [f for f in faults if f.kind in (Kind.KILL_READER, Kind.LEAVE_READER)]

    assert {fault.back for fault in away} == set(Back)
    assert all(fault.lasts is not None for fault in away)


def test_groups_are_whole_where_rounds_are_compared_with_them():
    for seed in SEEDS:
        plan = draw("rounds", seed)
        assert "groups" not in plan.pipeline or plan.elements % plan.sharing.consumers == 0


def test_all_gives_each_kind_in_turn():
    plans = [draw("all", seed) for seed in range(12)]
    sharing = [type(plan.sharing) for plan in plans]

    assert sharing[:4] == sharing[6:10] == [type(None), Rounds, Cached, Ordered]
    assert [plan.pipeline == PIPELINE for plan in plans] == [False] * 4 + [True] + [False] * 5 + [
        True,
        False,
    ]
    assert plans[5] == draw("saved", 5)


def test_one_order_is_read_by_one_by_several_and_by_consumers():
    plans = [draw("ordered", seed) for seed in SEEDS]

    assert {plan.sharing.consumers for plan in plans} == {None, 1, 2, 3}
    assert {plan.mode for plan in plans} == {DYNAMIC}
    for plan in plans:
        kinds = {fault.kind for life in plan.lives for fault in life.faults}
        assert plan.sharing.consumers is None or Kind.SAVE not in kinds


def test_saves_are_on_disks_and_in_stores_and_fail_at_writes_and_others_are_read():
    plans = [draw("saved", seed) for seed in SEEDS]
    saves = [plan for plan in plans if isinstance(plan.sharing, Saved)]
    faults = [fault for plan in saves for life in plan.lives for fault in life.faults]

    assert {plan.sharing.remote for plan in saves} == {True, False}
    assert {plan.sharing.order for plan in saves} == {"split", "any"}
    assert set(OF_SAVES) <= {fault.kind for fault in faults}
    assert all("load" in plan.pipeline for plan in plans if plan not in saves)

"""The real cores of ordered jobs under random schedules of faults: no law breaks."""

import pytest

from simulation.ordered_mesh import judge, judge_consumers


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 150, 25))
def test_no_law_of_ordered_jobs_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + 25) if (law := judge(seed)[0])}

    assert not broken


@pytest.mark.quick(1)
@pytest.mark.parametrize("first", range(0, 150, 25))
def test_no_law_of_an_order_that_goes_to_consumers_breaks_whatever_fails(first):
    seeds = range(first, first + 25)
    broken = {seed: law for seed in seeds if (law := judge_consumers(seed)[0])}

    assert not broken


def test_a_place_that_is_not_written_down_breaks_a_law(monkeypatch):
    monkeypatch.setattr(
        "penstock_dispatcher.core.records.IterationRecord.count", lambda one, total: None
    )

    assert any(judge_consumers(seed)[0] for seed in range(10))


def test_whose_an_element_is_by_its_number_alone_breaks_a_law(monkeypatch):
    monkeypatch.setattr(
        "penstock.protocol.rounds.Stride.index", lambda one, number: number % one.consumers
    )

    assert any(judge_consumers(seed)[0].startswith("order: ") for seed in range(20))


def test_handing_out_what_comes_first_breaks_a_law(monkeypatch):
    monkeypatch.setattr(
        "penstock.reader.core.task_order.TaskStream.exhausted", property(lambda _: True)
    )

    assert any(judge(seed)[0].startswith("order: ") for seed in range(60))


def test_a_schedule_is_played_again_alike():
    assert judge(8) == judge(8)

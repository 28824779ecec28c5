"""The real cores of ordered jobs under random schedules of faults: no law breaks."""

import pytest

from simulation.ordered_mesh import judge


@pytest.mark.parametrize("first", range(0, 150, 25))
def test_no_law_of_ordered_jobs_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + 25) if (law := judge(seed)[0])}

    assert not broken


def test_handing_out_what_comes_first_breaks_a_law(monkeypatch):
    monkeypatch.setattr(
        "penstock.reader.core.task_order.TaskStream.exhausted", property(lambda _: True)
    )

    assert any(judge(seed)[0].startswith("order: ") for seed in range(60))


def test_a_schedule_is_played_again_alike():
    assert judge(8) == judge(8)

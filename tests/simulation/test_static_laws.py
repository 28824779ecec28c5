"""The real cores with fixed parts, under random schedules of faults: no law breaks."""

import pytest

from simulation import static_mesh
from simulation.static_mesh import judge


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 150, 25))
def test_no_law_of_fixed_parts_breaks_whatever_fails(first):
    broken = {seed: law for seed in range(first, first + 25) if (law := judge(seed)[0])}

    assert not broken


def test_a_part_that_runs_elsewhere_breaks_a_law(monkeypatch):
    monkeypatch.setattr(
        "penstock_dispatcher.core.worker_entries.may_run", lambda ctx, task, able, now: list(able)
    )

    assert any("which has another one" in judge(seed)[0] for seed in range(0, 40, 2))


def test_a_schedule_is_played_again_alike():
    assert static_mesh.judge(8) == judge(8)

"""Presets and what is given in their place."""

import pytest

from loadtest.plan import Preset, plan


def test_without_a_preset_a_load_is_steady():
    load = plan(None, 3, 7.0, 100.0)

    (phase,) = load.phases
    assert (phase.readers, phase.seconds, phase.rate, load.churn) == (3, 7.0, 100.0, 0)


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_lasts_as_long_as_is_given(preset):
    assert plan(preset, None, 60.0, 0).seconds == 60.0


def test_a_spike_has_all_readers_in_the_middle_only():
    load = plan(Preset.SPIKE, 9, None, 0)

    assert [phase.readers for phase in load.phases] == [3, 9, 3]
    assert load.most_readers == 9


def test_churn_changes_workers_several_times():
    load = plan(Preset.CHURN, None, 60.0, 0)

    assert 4 <= load.seconds / load.churn <= 20


def test_a_soak_has_many_readers_of_many_jobs_and_each_is_slow():
    load = plan(Preset.SOAK)

    assert (load.phases[0].readers, load.jobs, load.seconds) == (200, 50, 600.0)
    assert load.phases[0].rate == 5.0
    assert plan(Preset.SOAK, rate=0.0, jobs=3).phases[0].rate == 0.0
    assert plan(Preset.SOAK, rate=0.0, jobs=3).jobs == 3

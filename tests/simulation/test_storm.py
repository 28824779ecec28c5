"""Schedules with many more faults: no law breaks, and what is counted was done to somebody."""

import pytest

from simulation.__main__ import Kind, faults_in
from simulation.storm import LIMITED, Storm, blowing


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", Kind)
def test_no_law_breaks_in_a_storm(kind):
    faults = 0
    with blowing(Storm(20)):
        for seed in range(4):
            law, stats = kind.judge(seed)
            assert not law, f"python -m simulation --kind {kind.value} --storm 20 --seed {seed}"
            faults += faults_in(stats)

    assert faults > 4 * 15


@pytest.mark.parametrize("seed", [4108, 5173])
def test_a_storm_that_once_broke_a_law_breaks_none(seed):
    with blowing(Storm(10)):
        assert not Kind.PLAIN.judge(seed)[0]


def test_a_storm_is_over_with_its_block_and_follows_from_the_seed():
    with blowing(Storm(9)):
        first = Kind.PLAIN.judge(3)
        assert Kind.PLAIN.judge(3) == first

    assert faults_in(Kind.PLAIN.judge(3)[1]) < faults_in(first[1])


def test_a_storm_brings_no_more_of_what_readers_are_rightly_told_of():
    drawn = list(Storm(200).draw(1, ("crash w", *LIMITED)))

    assert {kind for _, kind in drawn} == {"crash w"}
    assert list(Storm(200).draw(1, ())) == []

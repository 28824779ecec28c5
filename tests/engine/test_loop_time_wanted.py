"""How many times as much a loop could take: steady while the loop is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.loop_time import LEAST_STEPS, OFF_BY, UNKNOWN, YOUNG, Steady
from penstock.protocol.loop_time import LoopTime


def loop(share, seconds=10.0, steps=1000):
    return LoopTime(steps, seconds, seconds * share)


def test_a_loop_that_waits_half_its_time_could_take_twice_as_much():
    assert Steady().of(loop(0.5)) == pytest.approx(2.0)


def test_a_steady_loop_has_one_number_however_often_it_is_asked():
    steady = Steady()
    found = {steady.of(loop(share)) for share in (0.94, 0.95, 0.935, 0.945, 0.952, 0.93)}
    assert len(found) == 1


def test_a_loop_that_waits_otherwise_gets_another_number():
    steady = Steady()
    assert steady.of(loop(0.9)) == pytest.approx(10.0)
    assert steady.of(loop(0.5)) == pytest.approx(2.0)


def test_before_a_loop_has_had_some_elements_nothing_is_known():
    steady, early = Steady(), loop(0.9, steps=LEAST_STEPS - 1)
    assert steady.of(early) == UNKNOWN
    steady.of(loop(0.5))
    assert steady.of(early) == pytest.approx(2.0)


def test_what_a_young_loop_says_is_not_kept():
    steady = Steady()
    assert steady.of(loop(0.5, seconds=YOUNG / 2)) == pytest.approx(2.0)
    assert steady.of(loop(0.45)) == pytest.approx(1 / 0.55)


@given(st.lists(st.floats(0, 1), min_size=1))
def test_the_number_is_never_far_from_what_was_measured(shares):
    steady = Steady()
    for share in shares:
        found = steady.of(loop(share))
        measured = 1 / (1 - min(0.98, share))
        assert found / OFF_BY <= measured * 1.0001
        assert measured <= found * OFF_BY * 1.0001

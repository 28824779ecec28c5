"""The clock of a session sleeps while nothing is due, and wakes waits now and then."""

import pytest

from penstock.reader.session.ticks import LEAST, SOONER, TICKS_WAKE_EVERY, Ticks


def test_ticks_wake_waits_now_and_then_however_many_there_are():
    ticks = Ticks()

    woken = sum(ticks.wakes(at / 8000) for at in range(8000))

    assert woken == pytest.approx(1 / TICKS_WAKE_EVERY, abs=1)


def test_a_long_sleep_is_interrupted_once_and_a_short_one_not():
    ticks = Ticks()

    assert ticks.sleep(7.0, 7.04, 0.05) == pytest.approx(0.04)
    assert not ticks.interrupt()
    assert ticks.sleep(7.0, 8.0, 0.05) == 1.0
    assert [ticks.interrupt(), ticks.interrupt()] == [True, False]


def test_what_is_due_already_does_not_make_the_clock_spin():
    assert Ticks().sleep(7.0, 4.0, 0.05) == pytest.approx(LEAST)


def test_a_tick_comes_sooner_where_that_is_worth_it():
    ticks = Ticks()
    ticks.sleep(7.0, 7.04, 0.05)

    assert not ticks.interrupt_for(7.04 - SOONER / 2)
    assert [ticks.interrupt_for(7.01), ticks.interrupt_for(7.01)] == [True, False]

"""Rates of counters: over several looks, from zero for what began again; forgotten with them."""

import pytest

from penstock_dispatcher.page.pace import LOOKS, RateMeter


def test_a_counter_that_comes_in_jumps_has_an_even_rate():
    meter = RateMeter()
    rates = [meter.look(float(t), [("w", 100 * (t // 2))])["w"] for t in range(20)]

    assert all(40 <= rate <= 61 for rate in rates[LOOKS:])


def test_a_counter_that_fell_begins_again():
    meter = RateMeter()
    meter.look(0.0, [("w", 1000)])

    assert meter.look(1.0, [("w", 5)]) == {"w": 0.0}
    assert meter.look(2.0, [("w", 15)]) == {"w": 10.0}


def test_two_looks_at_one_time_change_nothing():
    meter = RateMeter()
    meter.look(0.0, [("w", 0)])

    assert meter.look(2.0, [("w", 20)]) == {"w": 10.0}
    assert meter.look(2.0, [("w", 20)]) == {"w": 10.0}


def test_what_is_gone_is_forgotten():
    meter = RateMeter()
    meter.look(0.0, [("a", 1), ("b", 1)])
    meter.look(1.0, [("a", 2)])

    assert meter.look(2.0, [("a", 3), ("b", 9)]) == {"a": pytest.approx(1.0), "b": 0.0}

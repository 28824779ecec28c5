"""How much operators made a second lately."""

import pytest

from penstock.protocol.measures import MADE, Measure
from penstock_dispatcher.core.measure_rates import WINDOW, MeasureRates


def tokens(number):
    return (Measure("", "pack", MADE, "tokens", number),)


def rate(rates, now):
    return sum(rates.at(now).values())


def test_steady_reports_give_what_they_add_a_second():
    rates = MeasureRates()
    for second in range(60):
        rates.add(tokens(500), float(second))
        assert rate(rates, float(second)) == pytest.approx(500, rel=0.11)


def test_what_was_made_long_ago_does_not_count():
    rates = MeasureRates()
    rates.add(tokens(500), 0.0)

    assert rate(rates, WINDOW / 2) > 0
    assert rate(rates, WINDOW + 1) == 0


def test_reports_that_come_together_are_kept_as_one():
    rates = MeasureRates()
    for report in range(1000):
        rates.add(tokens(1), 5.0 + report / 10_000)

    assert rate(rates, 5.1) == pytest.approx(1000, rel=0.1)
    assert len(rates._lately) == 1

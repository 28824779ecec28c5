"""Waits in buckets."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadtest.histogram import Histogram

seconds = st.floats(1e-6, 500)


def filled(waits):
    histogram = Histogram()
    for wait in waits:
        histogram.add(wait)
    return histogram


@given(st.lists(seconds, min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_within_two_percent(waits, share):
    exact = float(np.quantile(waits, share, method="inverted_cdf"))

    assert exact * 0.9999 <= filled(waits).quantile(share) * 1.0001
    assert filled(waits).quantile(share) <= exact * 1.021


@given(st.lists(seconds, max_size=50), st.lists(seconds, max_size=50))
def test_merged_is_as_if_counted_in_one(some, more):
    merged = filled(some)
    merged.merge(filled(more))

    whole = filled([*some, *more])
    assert (merged.counts == whole.counts).all()
    assert merged.longest == whole.longest
    assert math.isclose(merged.total, whole.total)


def test_extremes_are_counted_at_the_ends():
    histogram = filled([0.0, 1e9])

    assert len(histogram) == 2
    assert histogram.longest == 1e9


def test_nothing_has_no_quantile():
    assert Histogram().quantile(0.5) is None

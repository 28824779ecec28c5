"""Metrics as text: what the library's own parsers read is what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from penstock.runtime.clock import Durations
from penstock.web import metrics
from penstock.web.metrics import content_type_for, counter, counters, gauge, gauges, histograms

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
NUMBERS = st.floats(allow_nan=True) | st.integers(-5, 2**60)
COUNTS = st.integers(0, 2**53)


@st.composite
def families(draw):
    text = draw(WORDS).strip() or "what it is"
    took = Durations()
    for seconds in draw(st.lists(st.floats(0, 10), max_size=5)):
        took.observe(seconds)
    return [
        gauge("a_gauge", text, draw(NUMBERS)),
        counter("a_counter", text, draw(COUNTS)),
        gauges("by_label", text, ["job"], [((word,), draw(NUMBERS)) for word in {draw(WORDS)}]),
        counters("two", text, ["x", "y"], [((draw(WORDS), "b"), draw(COUNTS))]),
        histograms("took_seconds", text, ["what"], [((draw(WORDS),), took)]),
    ]


class Registry:
    def __init__(self, found):
        self._found = found

    def collect(self):
        return self._found


def samples(read, data):
    found = [sample for family in read(data.decode()) for sample in family.samples]
    return sorted((each.name, sorted(each.labels.items()), repr(each.value)) for each in found)


@given(families())
def test_prometheus_reads_what_its_own_library_would_have_written(found):
    ours = samples(read_text, metrics.prometheus_text(found))

    assert ours == samples(read_text, generate_latest(Registry(found)))


@given(families())
def test_openmetrics_reads_what_its_own_library_would_have_written(found):
    ours = samples(read_openmetrics, metrics.openmetrics_text(found))

    assert ours == samples(read_openmetrics, generate_openmetrics(Registry(found)))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain"),
        ("application/openmetrics-text; version=1.0.0; q=0.5", "application/openmetrics-text"),
        ("text/plain; version=a.b", "text/plain"),
        ("application/openmetrics-text; version=1.x.0", "text/plain"),
        ("application/openmetrics-text; version=", "application/openmetrics-text"),
    ],
)
def test_a_scraper_that_asks_for_a_version_that_is_none_gets_the_plain_format(accept, kind):
    assert content_type_for(accept).startswith(kind)

"""A pass's time line: seconds, then minutes, and never more than it may have."""

from penstock_dispatcher.page.history import (
    FIELDS,
    MINUTES_KEPT,
    SECONDS_KEPT,
    PassSample,
    TimeLine,
)

START = 1_800_000_000.0  # begins a minute


def line(seconds, wait=lambda s: 0.5):
    made = TimeLine()
    for s in range(seconds):
        made.add(PassSample(START + s, wait(s), 1.0, 2.0, 3.0, 0.1, 0.2))
    return made


def test_an_empty_line_has_columns_without_rows():
    assert TimeLine().columns() == {name: [] for name in FIELDS}
    assert TimeLine().newest is None


def test_newest_samples_are_kept_as_they_came_and_those_before_as_averages_of_minutes():
    seen = line(600, wait=lambda s: (s // 60) / 10).columns()

    old = [at for at in seen["at"] if at < START + 600 - SECONDS_KEPT]
    assert len(seen["at"]) == SECONDS_KEPT + len(old)
    assert seen["at"] == sorted(seen["at"])
    assert seen["wait"][: len(old)] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert old == [START + 29.5 + 60 * i for i in range(6)]


def test_a_line_that_goes_on_for_a_day_stays_as_long_as_it_may_be():
    made = TimeLine()
    for s in range(0, 86_400, 7):
        made.add(PassSample(START + s, 0, 0, 0, 0, 0, 0))

    assert len(made.columns()["at"]) <= SECONDS_KEPT + MINUTES_KEPT

"""How fast the tasks of an ordered job go."""

import pytest

from penstock_dispatcher.core.split_provider import Pace


def test_nothing_is_known_before_a_task_has_ended():
    pace = Pace()
    pace.begin(1, 10, 0.0)

    assert (pace.rate, pace.last) == (0.0, 10)


def test_the_first_task_says_how_fast_the_others_will_be():
    pace = Pace()
    pace.begin(1, 10, 0.0)
    pace.end(1, 2.0)

    assert pace.rate == 5.0


def test_a_task_counts_once_and_the_newest_counts_most():
    pace = Pace()
    for task, seconds in ((1, 1.0), (2, 0.1), (3, 0.1)):
        pace.begin(task, 10, 0.0)
        pace.end(task, seconds)
        pace.end(task, 50.0)

    assert pace.rate == pytest.approx(77.5)


def test_a_task_that_was_never_seen_to_begin_says_nothing():
    pace = Pace()
    pace.end(9, 1.0)

    assert pace.rate == 0.0


def test_an_empty_task_says_nothing():
    pace = Pace()
    pace.begin(1, 0, 0.0)
    pace.end(1, 1.0)

    assert (pace.rate, pace.last) == (0.0, 1)


def test_no_task_is_quicker_than_a_message():
    pace = Pace()
    pace.begin(1, 10, 0.0)
    pace.end(1, 0.0)

    assert pace.rate == pytest.approx(10_000)

"""Threads take turns often while any reader is open."""

import sys

import pytest

from penstock.runtime.event_loop import INTERVAL, short_turns


@pytest.fixture(autouse=True)
def interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_the_last_to_leave_restores_what_was_before():
    with short_turns():
        with short_turns():
            assert sys.getswitchinterval() == pytest.approx(INTERVAL, rel=0.05)
        assert sys.getswitchinterval() == pytest.approx(INTERVAL, rel=0.05)

    assert sys.getswitchinterval() == pytest.approx(0.005, rel=0.05)


def test_an_interval_that_another_set_meanwhile_stays():
    with short_turns():
        sys.setswitchinterval(0.02)

    assert sys.getswitchinterval() == pytest.approx(0.02, rel=0.05)


def test_turns_that_are_shorter_already_stay():
    sys.setswitchinterval(0.0001)

    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.05)

"""Openings beyond a number are refused with the seconds after which to try again."""

import pytest

from penstock.errors import Overloaded
from penstock.protocol.types import Failure
from penstock_dispatcher.calls import LATEST, SOONEST, Openings


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_there_is_room_again_when_one_is_over_also_by_an_error():
    openings = Openings(2)
    with openings.held(), openings.held(), pytest.raises(Overloaded, match="max_openings"):
        openings.held().__enter__()
    with pytest.raises(OSError, match="gone"), openings.held():
        raise OSError("gone")

    assert len(openings) == 0
    assert openings.refused == 1
    with openings.held():
        pass


def test_who_is_refused_is_told_how_long_those_that_wait_take():
    clock = Clock()
    openings = Openings(10, clock)
    for _ in range(100):
        with openings.held():
            clock.now += 0.2
    held = [openings.held() for _ in range(10)]
    for one in held:
        one.__enter__()
    with pytest.raises(Overloaded) as raised:
        openings.held().__enter__()

    assert raised.value.retry_after == pytest.approx(2.0, rel=0.01)


def test_it_is_never_at_once_nor_in_an_hour():
    clock = Clock()
    openings = Openings(1, clock)
    with openings.held(), pytest.raises(Overloaded) as soon:
        openings.held().__enter__()
    for _ in range(100):
        with openings.held():
            clock.now += 3600.0
    with openings.held(), pytest.raises(Overloaded) as late:
        openings.held().__enter__()

    assert soon.value.retry_after == SOONEST
    assert late.value.retry_after == LATEST


def test_when_to_try_again_crosses_a_connection():
    sent = Failure.of(Overloaded("full", 1500)).error()

    assert isinstance(sent, Overloaded)
    assert (str(sent), sent.retry_after) == ("full", 1.5)
    assert Failure.of(Overloaded("full")).error().retry_after == 0.0

"""How much of its time a loop waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.loop_time import SAMPLES, SPAN, LoopClock
from penstock.protocol.loop_time import LoopTime


class Loop:
    def __init__(self):
        self.now = 100.0
        self.clock = LoopClock()

    def step(self, wait, work, elements=1):
        asked = self.now
        self.now += wait
        self.clock.got(asked, self.now, elements)
        self.now += work


def test_nothing_is_known_before_the_first_step():
    assert LoopClock().total() == LoopTime() == LoopClock().newest()


def test_waits_are_summed_up():
    loop = Loop()
    for _ in range(10):
        loop.step(0.3, 0.7)
    total = loop.clock.total()

    assert (total.steps, total.waited) == (10, pytest.approx(3.0))
    assert total.share == pytest.approx(3.0 / 9.3)


def test_elements_of_a_block_come_without_a_wait():
    loop = Loop()
    for _ in range(10):
        loop.step(0.1, 0.4, elements=100)

    assert loop.clock.total().p50 == 0.0
    assert loop.clock.total().p99 == 0.0


def test_half_and_nearly_all_of_the_waits_are_told():
    loop = Loop()
    for i in range(100):
        loop.step(1.0 if i == 50 or i == 60 else 0.01, 0.1)
    total = loop.clock.total()

    assert total.p50 == pytest.approx(0.01, rel=0.2)
    assert total.p99 == pytest.approx(1.0, rel=0.2)


def test_what_was_long_ago_is_not_of_late():
    loop = Loop()
    for _ in range(20):
        loop.step(1.0, 0.0)
    for _ in range(3 * SAMPLES):
        loop.step(0.0, SPAN)

    assert loop.clock.newest().share < 0.01
    assert loop.clock.total().share > 0.3


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_shares_are_shares(steps):
    loop = Loop()
    for wait, work, elements in steps:
        loop.step(wait, work, elements)
    for found in (loop.clock.total(), loop.clock.newest()):
        assert 0 <= found.share <= 1
        assert 0 <= found.p50 <= found.p99
        assert found.steps <= sum(elements for _, _, elements in steps)

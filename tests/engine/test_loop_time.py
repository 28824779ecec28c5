"""How much of its time a loop waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.loop_time import SAMPLES, SPAN, UNKNOWN, WINDOW, LoopClock
from penstock.engine.op_times import OpTimeNow
from penstock.protocol.loop_time import LoopTime


class Loop:
    def __init__(self):
        self.now = 100.0
        self.clock = LoopClock(lambda: self.now)

    def step(self, wait, work, elements=1):
        self.clock.ask(self.now)
        self.now += wait
        self.clock.got(self.now, elements)
        self.now += work


def test_nothing_is_known_before_the_first_step():
    assert LoopClock().total() == LoopTime() == LoopClock().newest()


def test_waits_are_summed_up():
    loop = Loop()
    for _ in range(10):
        loop.step(0.3, 0.7)
    total = loop.clock.total()

    assert (total.steps, total.waited) == (10, pytest.approx(3.0))
    assert total.share == pytest.approx(0.3)


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


def test_a_wait_counts_from_its_first_second():
    loop = Loop()
    for _ in range(100):
        loop.step(0.001, 0.5)
    loop.clock.ask(loop.now)
    shares = []
    for _ in range(20):
        loop.now += 1.0
        shares.append(loop.clock.newest().share)

    assert shares[0] == pytest.approx(0.1, abs=0.02)
    assert shares == sorted(shares)
    assert shares[int(WINDOW) - 1] == 1.0
    assert loop.clock.newest().waiting == 20.0
    assert loop.clock.total().waited == pytest.approx(20.1)


def test_steps_a_second_fall_to_none_while_nothing_comes():
    loop = Loop()
    for _ in range(100):
        loop.step(0.0, 0.1)
    assert loop.clock.newest().rate == pytest.approx(10, rel=0.1)

    loop.clock.ask(loop.now)
    loop.now += 5
    assert 0 < loop.clock.newest().rate < 7
    loop.now += 6
    assert (loop.clock.newest().rate, loop.clock.newest().total) == (0.0, 100)


def test_a_loop_that_waits_for_its_first_element_waits():
    loop = Loop()
    loop.clock.ask(loop.now)
    loop.now += 4

    newest = loop.clock.newest()
    assert (newest.share, newest.waiting, newest.total) == (1.0, 4.0, 0)


def test_a_loop_that_works_for_long_does_not_wait():
    loop = Loop()
    for _ in range(10):
        loop.step(0.5, 0.5)
    loop.now += 300

    assert loop.clock.newest().share < 0.01
    assert loop.clock.newest().rate < 0.01


def test_a_wait_that_an_error_ends_counts_and_is_over():
    loop = Loop()
    loop.clock.ask(loop.now)
    loop.now += 2
    loop.clock.gave_up(loop.now)
    loop.now += 2

    assert (loop.clock.newest().waiting, loop.clock.newest().share) == (0.0, 0.5)


def test_behind_the_end_the_figures_stay():
    loop = Loop()
    loop.step(1.0, 1.0)
    loop.clock.ask(loop.now)
    loop.clock.end(loop.now)
    before = loop.clock.newest(), loop.clock.total()
    loop.now += 100

    assert (loop.clock.newest(), loop.clock.total()) == before


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_shares_are_shares(steps):
    loop = Loop()
    for wait, work, elements in steps:
        loop.step(wait, work, elements)
    for found in (loop.clock.total(), loop.clock.newest()):
        assert 0 <= found.share <= 1
        assert 0 <= found.p50 <= found.p99
        assert found.steps <= sum(elements for _, _, elements in steps)


def operators(**seconds):
    """Return the operators of a training process with their work, and what distribute waited."""
    return tuple(
        OpTimeNow(
            str(at),
            label,
            0,
            0.0 if label == "distribute" else sum_,
            sum_ if label == "distribute" else 0.0,
            0.0,
            0.1 * sum_,
        )
        for at, (label, sum_) in enumerate(seconds.items())
    )


def test_what_is_not_waited_for_workers_is_waited_for_operators_here():
    loop = Loop()
    spent = {"augment": 0.0, "distribute": 0.0, "batch": 0.0}
    loop.clock.operators = lambda: operators(**spent)
    for _ in range(40):
        spent["augment"] += 0.3
        spent["batch"] += 0.01
        spent["distribute"] += 0.1
        loop.step(0.41, 0.59)
    found = loop.clock.newest()

    assert found.waited_here == pytest.approx(found.waited * 31 / 41, rel=0.1)
    assert found.slowest_here == "augment"
    assert found.worked_here / found.seconds == pytest.approx(0.3, rel=0.1)
    assert found.cpu_here == pytest.approx(0.1 * found.worked_here)


def test_how_much_is_wanted_does_not_count_the_start_and_is_steady():
    loop = Loop()
    assert loop.clock.newest().wanted == 0.0
    loop.clock.ask(loop.now)
    assert loop.clock.newest().wanted == UNKNOWN
    loop.step(30.0, 0.5)
    found = set()
    for n in range(200):
        loop.step(0.5 + 0.02 * (n % 3), 0.5)
        if n >= 10:
            found.add(loop.clock.newest().wanted)

    (wanted,) = found
    assert wanted == pytest.approx(2.0, rel=0.1)

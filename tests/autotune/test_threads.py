"""How many threads pay, in virtual time: a machine whose speed is a function of its threads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.autotune.budget import Budget
from penstock.autotune.meter import LEAST_SECONDS
from penstock.autotune.threads import HARDLY, Period, ThreadChange, ThreadTuner
from tests.autotune.machine import Machine


def settled(rate, wanted=1e9, cores=8):
    """Return the number of threads that it has most of the time, at last."""
    late = Machine(rate, wanted, Budget(cores, 1)).run(20_000)[-5_000:]
    return max(set(late), key=late.count)


def test_threads_that_help_are_added_up_to_the_cores():
    assert settled(lambda n: 1000.0 * n) == 8
    assert settled(lambda n: 1000.0 * n, cores=1) == 1


def test_a_function_that_holds_the_lock_keeps_one_thread():
    assert settled(lambda n: 1000.0 * 0.99**n) == 1


def test_it_stops_where_another_thread_is_of_no_use():
    assert settled(lambda n: 1000.0 * min(n, 3)) == 3


def test_a_reader_who_hardly_waits_needs_no_more():
    assert settled(lambda n: 1000.0 * n, wanted=900.0) == 1
    assert settled(lambda n: 1000.0 * n, wanted=2900.0) == 3


def test_trials_that_do_not_help_become_rare():
    machine = Machine(lambda n: 1000.0, 1e9, Budget(8, 1))

    seen = machine.run(10_000)

    assert sum(n > 1 for n in seen[:100]) > 5
    assert sum(n > 1 for n in seen[-1000:]) < 20


periods = st.builds(
    Period,
    st.integers(0, 1000),
    st.floats(LEAST_SECONDS, 10),
    st.floats(0, 10),
)


@given(st.lists(st.tuples(periods, st.booleans())))
def test_laws(steps):
    tuner, threads = ThreadTuner(), 1
    for period, room in steps:
        before = threads
        step = tuner.step(period, room=room)
        threads += step.value

        assert threads >= 1
        if step is ThreadChange.MORE:
            assert room
            assert period.waited >= HARDLY * period.seconds
        if step is ThreadChange.FEWER:
            assert before > 1

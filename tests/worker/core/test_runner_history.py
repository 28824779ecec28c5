"""How often runners may die, how soon the next one begins, and how long their operators worked."""

import pytest

from penstock.protocol.measures import MADE, Measure
from penstock_worker.core.runner_history import (
    DEATHS,
    KEPT,
    PAUSE,
    TRIES,
    WINDOW,
    PastTimes,
    RestartPolicy,
    RunnerTimes,
)
from penstock_worker.runner.messages import OperatorTime, TimesMeasured


def test_runners_may_die_as_long_as_they_get_further():
    lives = RestartPolicy()
    assert not lives.flush_each

    assert all(lives.may_restart(n) for n in range(100))
    assert lives.flush_each
    assert [lives.may_restart(200) for _ in range(DEATHS)] == [True] * (DEATHS - 1) + [False]


def test_runners_begin_one_by_one():
    lives = RestartPolicy()

    assert lives.next_delay(10.0) == 0.0
    assert lives.next_delay(10.0) == pytest.approx(PAUSE)
    assert lives.next_delay(10.0) == pytest.approx(2 * PAUSE)
    assert lives.next_delay(20.0) == 0.0


def test_who_begins_and_then_lacks_room_gets_further_or_has_its_tries():
    lives = RestartPolicy()
    for head in (0, 10):
        tries = []
        for _ in range(len(TRIES) + 1):
            tries.append(lives.may_retry("threads", head))
            lives.on_first_report()  # it began, at least
        assert tries == [True] * len(TRIES) + [False]

    assert lives.lacking == ""


def report(seconds, worked, *, call=0.0, held_up=0.0):
    fn = OperatorTime("", "map(decode)", int(10 * worked), worked, 0.0, call)
    return TimesMeasured(1, seconds, held_up, 0.0, (fn,))


def test_nothing_is_known_before_the_first_report():
    assert RunnerTimes().whole is RunnerTimes().newest is None


def test_of_a_runner_that_is_young_the_newest_is_all():
    times = RunnerTimes()
    times.add(report(4.0, 2.0))

    assert times.newest == times.whole == report(4.0, 2.0)


def test_an_hour_of_work_does_not_hide_that_a_call_does_not_return():
    times = RunnerTimes()
    for second in range(3600):
        times.add(report(float(second), 0.02 * second, held_up=0.9 * second))
    for second in range(int(WINDOW) + 1):
        times.add(report(3600.0 + second, 72 + second, call=float(second), held_up=3240.0))
    newest = times.newest
    (fn,) = newest.operators

    assert fn.worked / newest.seconds == pytest.approx(1.0)
    assert (fn.call, fn.elements) == (WINDOW, 100)
    assert newest.held_up == 0.0
    assert times.whole.held_up == 3240.0


def test_processor_time_is_that_of_late_too():
    times = RunnerTimes()
    for second in range(60):
        fn = OperatorTime("", "map(f)", 0, float(second), 0.0, 0.0, second / 2)
        times.add(TimesMeasured(1, float(second), 0.0, 0.0, (fn,)))
    (fn,) = times.newest.operators

    assert fn.cpu == pytest.approx(fn.worked / 2) == WINDOW / 2


def test_the_newest_attempts_that_are_over_are_kept_if_they_said_anything():
    past = PastTimes()
    past.add(1, 2, None)
    for task in range(KEPT + 5):
        past.add(1, task, report(1.0, 0.5))

    assert [task for _, task, _ in past.known] == list(range(5, KEPT + 5))


def test_what_operators_counted_adds_up_over_runners():
    def counted(number):
        return (Measure("", "pack", MADE, "tokens", number),)

    first = RunnerTimes()
    first.add(TimesMeasured(1, 1.0, 0.0, 0.0, (), measures=counted(5)))
    first.add(TimesMeasured(1, 2.0, 0.0, 0.0, (), measures=counted(8)))
    second = RunnerTimes(first.measures)
    assert second.measures == counted(8)
    second.add(TimesMeasured(2, 1.0, 0.0, 0.0, (), measures=counted(2)))

    assert second.measures == counted(10)

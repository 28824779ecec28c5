"""How long a runner's operators worked of late."""

import pytest

from penstock_worker.core.runner_times import KEPT, WINDOW, PastTimes, RunnerTimes
from penstock_worker.runner.messages import OperatorTime, TimesMeasured


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

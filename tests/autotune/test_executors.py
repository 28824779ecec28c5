"""Calls move to processes where threads are no use, and back where processes are none either."""

from __future__ import annotations

from collections.abc import Callable

from penstock.autotune.budget import Budget, ProcessShare
from penstock.autotune.executors import ExecutorTuner, Move
from penstock.autotune.meter import Meter
from penstock.autotune.threads import Period, ThreadChange


class Calls:
    """Calls that use *busy* cores in threads; a process is there when it has been asked for."""

    def __init__(self, busy: float, *, failed: bool = False) -> None:
        self.busy, self.failed = busy, failed
        self.in_processes = False
        self.moves: list[bool] = []
        self.callers = 0
        self.seconds = 0.0

    def move(self, *, to_processes: bool) -> None:
        self.moves.append(to_processes)
        self.in_processes = to_processes and not self.failed

    def take_seconds(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Machine:
    """Gives ``rate(threads, in_processes)`` elements a second to a reader who wants all it gets."""

    def __init__(
        self,
        rate: Callable[[int, bool], float],
        calls: Calls,
        cores: int = 4,
        budget: Budget | None = None,
    ) -> None:
        self.now, self.rate, self.calls = 0.0, rate, calls
        self.share = ProcessShare(100)
        budget = budget or Budget(cores, 1, self.share)
        self.meter = Meter(budget, clock=lambda: self.now)
        self.meter.calls = calls

    def run(self, blocks: int) -> None:
        """Let the reader ask for blocks of ten."""
        for _ in range(blocks):
            took = 10 / self.rate(self.meter.threads, self.calls.in_processes)
            self.meter.enter()
            self.now += took
            self.calls.seconds += self.calls.busy * took
            self.calls.callers = self.meter.threads if self.calls.in_processes else 0
            self.meter.leave(10)


def of_one_lock(threads: int, in_processes: bool) -> float:
    return 1000.0 * threads if in_processes else 1000.0


def test_a_function_that_holds_the_lock_gets_processes_for_all_cores():
    machine = Machine(of_one_lock, Calls(busy=1.0))

    machine.run(3000)

    assert machine.calls.moves == [True]
    assert machine.meter.threads == 4


def test_there_are_no_more_processes_than_may_be_and_fewer_when_others_come():
    machine = Machine(of_one_lock, Calls(busy=1.0), cores=8)
    seen = []
    for machine.share.most in (3, 2, 1, 4):
        machine.run(3000)
        seen.append(machine.meter.threads)

    assert seen == [3, 2, 1, 4]
    assert machine.calls.moves == [True, False, True]  # one process alone would gain nothing


def test_a_trial_that_others_cut_short_is_made_again_when_there_is_room():
    machine = Machine(of_one_lock, Calls(busy=1.0))
    while not machine.calls.moves:
        machine.run(1)
    machine.share.most = 1
    machine.run(3000)
    assert machine.calls.moves == [True, False]
    assert (machine.meter.threads, machine.share.used) == (1, 0)

    machine.share.most = 3
    machine.run(6000)

    assert machine.calls.moves == [True, False, True]
    assert (machine.meter.threads, machine.share.used) == (3, 3)


def test_processes_that_fail_later_are_given_back():
    machine = Machine(of_one_lock, Calls(busy=1.0))
    machine.run(3000)
    assert machine.share.used == 4

    machine.calls.failed = True
    machine.run(3000)

    assert machine.calls.moves == [True, False]
    assert machine.share.used == 0


def test_without_room_for_two_calls_stay_in_threads_until_there_is():
    machine = Machine(of_one_lock, Calls(busy=1.0))
    machine.share.most = 1
    machine.run(3000)
    assert machine.calls.moves == []

    machine.share.most = 2
    machine.run(6000)

    assert machine.calls.moves == [True]
    assert machine.meter.threads == 2


def test_operators_share_the_processes_and_give_them_back():
    budget = Budget(16, 1, ProcessShare(5))
    first, second = (Machine(of_one_lock, Calls(busy=1.0), budget=budget) for _ in range(2))
    first.run(3000)
    second.run(3000)
    assert (first.meter.threads, second.calls.moves) == (5, [])

    first.meter.close()
    second.run(6000)

    assert second.meter.threads == 5
    second.meter.close()
    assert budget.free_processes == 5


def test_a_function_that_threads_help_stays_in_threads():
    machine = Machine(lambda threads, _: 1000.0 * threads, Calls(busy=1.0))

    machine.run(3000)

    assert machine.calls.moves == []
    assert machine.meter.threads == 4


def test_a_function_that_waits_for_something_scarce_stays_in_threads():
    machine = Machine(lambda *_: 1000.0, Calls(busy=0.05))

    machine.run(3000)

    assert machine.calls.moves == []


def test_where_processes_are_no_use_either_calls_go_back_once_for_all():
    machine = Machine(lambda *_: 1000.0, Calls(busy=1.0))

    machine.run(10_000)

    assert machine.calls.moves == [True, False]


def test_where_there_can_be_no_processes_calls_are_tried_there_once():
    machine = Machine(lambda *_: 1000.0, Calls(busy=1.0, failed=True))

    machine.run(10_000)

    assert machine.calls.moves == [True, False]
    assert machine.meter.threads in (1, 2)


def test_one_core_is_not_tried_to_be_shared_among_processes():
    machine = Machine(of_one_lock, Calls(busy=1.0), cores=1)

    machine.run(3000)

    assert machine.calls.moves == []
    assert machine.meter.threads == 1


def test_a_period_in_which_processes_start_decides_nothing():
    tuner = ExecutorTuner()
    tuner.untried(Period(100, 1.0, 1.0), ThreadChange.MORE, 1.0)
    assert tuner.untried(Period(100, 1.0, 1.0), ThreadChange.FEWER, 1.0) is Move.TO_PROCESSES

    slow, fast = Period(10, 1.0, 1.0), Period(200, 1.0, 1.0)

    assert tuner.tried(slow, ready=False) is None
    assert tuner.tried(slow, ready=True) is None
    assert tuner.on_trial
    assert tuner.tried(fast, ready=True) is None
    assert not tuner.on_trial

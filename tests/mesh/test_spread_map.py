"""A job with one task on a worker calls its functions on all slots, with real processes.

Whether processes pay is measured, and that is tried in virtual time (`tests/autotune`). Here they
always do: what is mapped says so to the runner that it is in.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from penstock import AUTOTUNE
from penstock.autotune.executors import ExecutorTuner, Move
from penstock.autotune.threads import ThreadChange, ThreadTuner
from penstock.dataset.dataset import Dataset
from penstock_worker.config import WorkerConfig


def at_once(tuner, _period, _change, _busy, *, room):
    """Stand for `ExecutorTuner.untried`: processes are tried as soon as there may be any."""
    if tuner._over or not room:
        return None
    tuner.on_trial = tuner._over = ThreadTuner.more_helps = True
    return Move.TO_PROCESSES


def always(tuner, _period, *, ready):
    """Stand for `ExecutorTuner.tried`: they pay."""
    tuner.on_trial = not ready


def again(tuner):
    """Stand for `ExecutorTuner.cut_short`: calls are in threads, which are of no use."""
    tuner.on_trial = tuner._over = ThreadTuner.more_helps = False


def step(_tuner, _period, *, room):
    """Stand for `ThreadTuner.step`: threads are of no use, and processes are."""
    helps = room and getattr(ThreadTuner, "more_helps", False)
    return ThreadChange.MORE if helps else ThreadChange.STAY


def where(x):
    ExecutorTuner.untried, ExecutorTuner.tried, ThreadTuner.step = at_once, always, step
    ExecutorTuner.cut_short = again
    time.sleep(0.002)
    with open(f"/proc/{os.getppid()}/stat") as file:  # that of the server that forked this process
        parent = int(file.read().rpartition(")")[2].split()[1])
    return int(x), os.getpid(), parent


def spread(cluster, n, **kwargs):
    dataset = Dataset.range(n).map(where, num_parallel_calls=AUTOTUNE)
    return dataset.distribute("parallel_epochs", cluster.target, **kwargs)


class Read:
    """What a loop over *iterator* gets, and the processes of which it came."""

    def __init__(self, iterator):
        self._iterator = iterator
        self.elements = []
        self.runner = None
        self.children = {}

    def until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.children
            self.take(1)

    def take(self, count):
        for _ in range(count):
            x, pid, parent = map(int, next(self._iterator))
            self.elements.append(x)
            if self.runner is None:
                self.runner = pid
            if parent == self.runner:
                self.children[pid] = x


def newest(read):
    """Return the processes that made the last hundred elements."""
    return {pid for pid, x in read.children.items() if x > len(read.elements) - 100}


def gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.fixture
def two_slots(clusters):
    with clusters.own(workers=1, worker=WorkerConfig(slots=2)) as cluster:
        yield cluster


def test_calls_are_made_in_as_many_processes_as_there_are_slots_and_none_is_left(two_slots):
    with iter(spread(two_slots, 10**6)) as it:
        read = Read(it)
        read.until(lambda: len(newest(read)) == 2)
        read.take(200)
        assert len(read.children) == 2

        state = json.loads(json.dumps(it.state()))
        first, second = read.children
        os.kill(first, signal.SIGKILL)
        read.until(lambda: len(read.children) == 3)
        read.take(100)
        assert read.elements == list(range(len(read.elements)))
        last = set(read.children)

    with spread(two_slots, 10**6).iterator(state) as it:
        saved = int(next(it)[0])
        assert [int(next(it)[0]) for _ in range(50)] == list(range(saved + 1, saved + 51))
    two_slots.stop()
    deadline = time.monotonic() + 20
    while not all(map(gone, last)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_a_second_job_gets_its_part_of_the_slots_and_gives_it_back(two_slots):
    with iter(spread(two_slots, 10**6, job_name="a")) as it:
        one = Read(it)
        one.until(lambda: len(newest(one)) == 2)
        with iter(spread(two_slots, 10**6, job_name="b")) as other:
            two = Read(other)
            two.take(200)
            one.until(lambda: not newest(one))  # one process alone would gain nothing
            two.take(200)
            assert not two.children
        one.until(lambda: len(newest(one)) == 2)

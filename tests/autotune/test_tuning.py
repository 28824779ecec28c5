"""Operators with `AUTOTUNE`: the same elements and states, and the numbers they find."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from penstock.autotune.tuning import Tuning
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.graph.run import open_root
from penstock.options import AUTOTUNE, AutotuneOptions, Options
from penstock.serialization.fingerprint import fingerprint
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_threads_of_other_tests")


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("penstock")]


def inner(n):
    return Dataset.range(10 * n, 10 * n + 3)


def of_cores(dataset, cores, **kwargs):
    return dataset.with_options(Options(autotune=AutotuneOptions(cpu_budget=cores, **kwargs)))


def pipeline(number):
    dataset = Dataset.range(12).map(lambda x: x + 1, number).interleave(inner, 3, 2, number)
    return dataset.prefetch(number)


def test_elements_and_states_are_those_of_any_other_number():
    with iter(pipeline(AUTOTUNE)) as tuned, pipeline(2).iterator(tuned.state()) as fixed:
        for _ in range(20):
            assert next(tuned) == next(fixed)
        state = tuned.state()

    for number in (AUTOTUNE, 1, 3):
        with pipeline(number).iterator(state) as rest:
            assert list(rest) == list(Dataset.range(1, 13).interleave(inner, 3, 2))[20:]


def test_a_fingerprint_is_one_whatever_is_found():
    dataset = pipeline(AUTOTUNE)
    before = fingerprint(dataset.node)

    list(dataset)

    assert fingerprint(dataset.node) == before


def test_the_default_cycle_is_not_the_number_of_cores():
    plain = Dataset.range(30).interleave(inner)

    assert list(Dataset.range(30).interleave(inner, num_parallel_calls=AUTOTUNE)) == list(plain)


@pytest.mark.quick(1)
@pytest.mark.parametrize("operator", ["map", "interleave"])
def test_calls_that_wait_get_more_threads_within_the_cores(operator):
    most, lock, inside = [0], threading.Lock(), [0]

    def wait(x):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        with lock:
            inside[0] -= 1
        return x

    def one(x):
        return Dataset.range(x, x + 1).map(wait)

    source = Dataset.range(400)
    if operator == "map":
        dataset = source.map(wait, AUTOTUNE)
    else:
        dataset = source.interleave(one, 8, num_parallel_calls=AUTOTUNE)
    assert list(of_cores(dataset, 3)) == list(range(400))

    assert 2 <= most[0] <= 3
    wait_until(lambda: not threads())


def test_threads_that_did_not_help_end():
    run = open_root(Dataset.range(1000).map(lambda x: x, 4).node, Context.local(1))
    run.block(1)
    wait_until(lambda: len(threads()) == 5)

    run.resize(2)

    wait_until(lambda: len(threads()) == 3)
    out = [1, *run.block(900)]
    run.resize(3)
    while block := run.block(64):
        out += block
    run.close()
    assert out[-1] == 999
    wait_until(lambda: not threads())


class Bursts:
    """A reader of a tuned `prefetch` that waits until the buffer is full, and then empties it."""

    def __init__(self, dataset):
        self.run = open_root(dataset.node, Context.local(1))
        self.lane = self.run._lane
        self.run.block(1)

    def come(self, times):
        for _ in range(times):
            wait_until(lambda: self.lane._size - self.lane._level < self.lane._least)
            self.read(self.lane._size + 1)

    def read(self, count):
        for _ in range(count):
            self.run.block(1)

    def close(self):
        """Leave; return how long the buffer was at last."""
        self.run.close()
        return self.lane._size


def zeros(length):
    return Dataset.range(10**6).map(lambda x: np.zeros(length(x), np.uint8)).prefetch(AUTOTUNE)


def test_a_buffer_grows_for_a_reader_that_comes_in_bursts():
    reader = Bursts(zeros(lambda x: 1))

    reader.come(8)

    assert reader.close() >= 64


def test_a_buffer_stays_within_its_bytes():
    reader = Bursts(of_cores(zeros(lambda x: 1000), 1, ram_budget=8000))

    reader.come(8)

    assert 4 <= reader.close() <= 8


def test_elements_that_become_large_make_a_buffer_short():
    lengths = zeros(lambda x: 100 if x < 500 else 10**6)
    reader = Bursts(of_cores(lengths, 1, ram_budget=10**5))

    reader.come(4)
    before = reader.lane._size
    reader.read(650)

    assert before > 4
    assert reader.close() == 1


def test_without_tuning_it_is_as_many_as_cores():
    off = AutotuneOptions(enabled=False, cpu_budget=3)
    together = threading.Barrier(3, timeout=20)

    def meet(x):
        together.wait()
        return x

    dataset = Dataset.range(3).map(meet, AUTOTUNE).with_options(Options(autotune=off))

    assert list(dataset) == [0, 1, 2]


def test_a_run_has_its_part_of_the_host_unless_options_say_how_much(monkeypatch):
    monkeypatch.setattr("penstock.autotune.tuning.cores", lambda: 8)

    whole, part, small = (Tuning.of(Options(), share).budget for share in (1, 4, 16))
    assert [budget.cores for budget in (whole, part, small)] == [8, 2, 1]
    assert whole.ram == 4 * part.ram

    wanted = Options(autotune=AutotuneOptions(cpu_budget=3, ram_budget=1000))
    assert (Tuning.of(wanted, 4).budget.cores, Tuning.of(wanted, 4).budget.ram) == (3, 1000)


def test_cores_are_counted_when_a_tuned_operator_asks_and_not_before(monkeypatch):
    asked: list[int] = []

    def count() -> int:
        asked.append(1)
        return 2

    monkeypatch.setattr("penstock.autotune.tuning.cores", count)

    assert len(list(Dataset.range(3).map(lambda x: x).batch(2))) == 2
    assert not asked

    budget = Tuning.of(Options()).budget
    assert [budget.take_thread(), budget.take_thread()] == [True, False]
    assert asked == [1]

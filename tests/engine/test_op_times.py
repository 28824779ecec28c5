"""How long operators work, each by itself."""

import gc
import threading
import time
import weakref

import pytest

from penstock.dataset.dataset import Dataset


def times(dataset, count):
    with iter(dataset) as elements:
        for _ in range(count):
            next(elements)
        return {one.label: one for one in elements.stats().operators}


def nap(x):
    time.sleep(0.01)
    return x


def test_an_operator_is_not_charged_with_what_is_below_it():
    found = times(Dataset.range(20).map(nap).batch(5), 4)

    assert found["map(nap)"].worked == pytest.approx(0.2, abs=0.1)
    assert found["batch"].worked < 0.05
    assert found["range"].worked < 0.05


def test_elements_are_counted():
    found = times(Dataset.range(20).map(nap).batch(5), 4)

    assert (found["batch"].elements, found["map(nap)"].elements) == (4, 20)


def test_calls_in_threads_are_work_and_waiting_for_them_is_none():
    found = times(Dataset.range(40).map(nap, num_parallel_calls=4), 40)["map(nap)"]

    assert 0.3 < found.worked < 1.2
    assert 0.05 < found.waited < 0.4


def test_datasets_read_in_threads_are_the_work_of_what_interleaves_them():
    dataset = Dataset.range(4).interleave(
        lambda x: Dataset.range(5).map(nap), cycle_length=4, num_parallel_calls=4
    )

    (found,) = (one for label, one in times(dataset, 20).items() if label.startswith("interleave"))
    assert found.worked > 0.15


def test_what_a_prefetch_waits_for_is_work_of_others():
    found = times(Dataset.range(20).map(nap).prefetch(1), 20)

    assert found["prefetch"].waited > 0.05
    assert found["prefetch"].worked < 0.1


def test_inner_datasets_are_their_operators_work():
    found = times(Dataset.range(5).flat_map(lambda x: Dataset.range(3).map(nap)), 15)

    assert not any(label == "map(nap)" for label in found)
    (flat,) = (one for label, one in found.items() if label.startswith("flat_map"))
    assert flat.worked > 0.1


def test_what_is_timed_is_dropped_as_soon_as_nobody_has_it():
    gc.collect()
    gc.disable()
    try:
        elements = iter(Dataset.range(10).map(abs))
        next(elements)
        run = weakref.ref(elements._reading._run)
        del elements

        assert run() is None
    finally:
        gc.enable()


class Stuck:
    """A function that does not return before it is let go."""

    def __init__(self):
        self.inside, self.let_go = threading.Event(), threading.Event()

    def __call__(self, x):
        self.inside.set()
        self.let_go.wait(60)
        return x


@pytest.mark.parametrize(
    "pipeline",
    [
        lambda data, fn: data.map(fn).batch(2),
        lambda data, fn: data.map(fn).batch(2).prefetch(1),
        lambda data, fn: data.map(fn, num_parallel_calls=2).batch(2),
    ],
    ids=["in the loop's thread", "behind a prefetch", "in threads of its own"],
)
def test_a_call_that_does_not_return_is_work_from_its_first_second(pipeline):
    stuck = Stuck()
    with iter(pipeline(Dataset.range(10), stuck)) as elements:
        loop = threading.Thread(target=next, args=(elements,))
        loop.start()
        assert stuck.inside.wait(60)
        try:
            before = elements.stats()
            began = time.monotonic()
            while (now := elements.stats()).newest.waiting < before.newest.waiting + 0.2:
                assert time.monotonic() < began + 60
        finally:
            stuck.let_go.set()
            loop.join(60)

    was, found = ({one.label: one for one in seen.operators} for seen in (before, now))
    (label,) = (one for one in found if one.startswith("map("))
    assert found[label].worked - was[label].worked > 0.15
    assert found[label].call > 0.15
    assert now.newest.waits_for.startswith(f"{label} in the training process, in a call for")
    assert all(one.worked < 0.15 for one in found.values() if one.label != label)
    assert now.newest.share > 0.9


def compute(x):
    until = time.thread_time() + 0.01
    while time.thread_time() < until:
        pass
    return x


@pytest.mark.quick(1)
@pytest.mark.parametrize("calls", [None, 4])
def test_a_function_that_sleeps_needs_no_core_and_one_that_computes_does(calls):
    sleeps = times(Dataset.range(40).map(nap, num_parallel_calls=calls), 40)["map(nap)"]
    computes = times(Dataset.range(40).map(compute, num_parallel_calls=calls), 40)["map(compute)"]

    assert sleeps.cpu < 0.4 * sleeps.worked
    assert computes.cpu > 0.15 * 40 * 0.01
    assert computes.cpu > 3 * sleeps.cpu


@pytest.mark.slow
def test_what_operators_below_compute_is_not_their_callers():
    found = times(Dataset.range(40).map(compute).map(nap), 40)

    assert found["map(nap)"].cpu < 0.5 * found["map(nap)"].worked
    assert found["map(compute)"].cpu > 0.3


def test_calls_in_processes_count_as_computing():
    dataset = Dataset.range(20).map(nap, num_parallel_calls=2, executor="process")
    found = times(dataset, 20)["map(nap)"]

    assert found.cpu == pytest.approx(found.worked, rel=0.1)

"""Operators with buffers upon one another: against models, and restored at every position."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.engine import draws
from penstock.errors import TransformError

pytestmark = pytest.mark.usefixtures("no_threads_of_other_tests")


def shuffled(values, size, seed):
    slots, out = values[:size], []
    for j in range(len(values)):
        left = min(size, len(values) - j)
        slot = int(draws.below(draws.draw(seed, j, j + 1), left)[0])
        out.append(slots[slot])
        if j + size < len(values):
            slots[slot] = values[j + size]
        else:
            slots[slot] = slots[left - 1]
            slots.pop()
    return out


def interleaved(lists, cycle, length):
    waiting, slots, out = [iter(each) for each in lists], [None] * cycle, []
    while waiting or any(slots):
        for i in range(cycle):
            if slots[i] is None and waiting:
                slots[i] = waiting.pop(0)
            for _ in range(length if slots[i] else 0):
                try:
                    out.append(next(slots[i]))
                except StopIteration:
                    slots[i] = None
                    break
    return out


def windows(values, size, shift):
    return [values[start : start + size] for start in range(0, len(values), shift)]


def cuts(values, size):
    return [values[i : i + size] for i in range(0, len(values), size)]


def few(x):
    return [int(x), int(x) + 1, int(x) + 2][: int(x) % 4]


def picky(bad):
    def check(x):
        if x % bad == 3:
            raise ValueError("bad")
        return x

    return check


class Picky:
    """A sequence, some of whose items fail."""

    def __init__(self, bad):
        self.check = picky(bad)

    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return self.check(i)


# Each step: how a dataset of integers changes, and how a list of them does.
small = st.integers(1, 6)
STEPS = st.one_of(
    st.builds(
        lambda size, seed: (lambda d: d.shuffle(size, seed), lambda v: shuffled(v, size, seed)),
        small,
        st.integers(0, 9),
    ),
    st.builds(lambda a: (lambda d: d.batch(a).unbatch(), lambda v: v), small),
    st.builds(lambda a, b: (lambda d: d.batch(a).rebatch(b).unbatch(), lambda v: v), small, small),
    st.builds(
        lambda a, b: (
            lambda d: d.batch(a).rebatch(b, drop_remainder=True).unbatch(),
            lambda v: v[: len(v) // b * b],
        ),
        small,
        small,
    ),
    st.builds(lambda a: (lambda d: d.prefetch(a), lambda v: v), small),
    st.builds(
        lambda a, b: (
            lambda d: d.window(a, b).flat_map(lambda w: w),
            lambda v: [x for w in windows(v, a, b) for x in w],
        ),
        small,
        small,
    ),
    st.builds(
        lambda a, b, seed: (
            lambda d: d.window(a, b).shuffle(2, seed).flat_map(lambda w: w.batch(2)).unbatch(),
            lambda v: [x for w in shuffled(windows(v, a, b), 2, seed) for x in w],
        ),
        small,
        small,
        st.integers(0, 9),
    ),
    st.just(
        (
            lambda d: d.flat_map(lambda x: Dataset.range(x, x + x % 4)),
            lambda v: [y for x in v for y in few(x)],
        )
    ),
    st.builds(
        lambda cycle, length, parallel: (
            lambda d: d.interleave(
                lambda x: Dataset.range(x, x + x % 4).shuffle(1), cycle, length, parallel
            ),
            lambda v: interleaved(map(few, v), cycle, length),
        ),
        small,
        small,
        st.sampled_from([None, None, None, 2]),
    ),
    st.builds(
        lambda a: (lambda d: d.filter(lambda x: x % a != 0), lambda v: [x for x in v if x % a]),
        st.integers(2, 5),
    ),
    st.builds(
        lambda a: (lambda d: d.map(picky(a)), lambda v: [x for x in v if x % a != 3]),
        st.integers(4, 9),
    ),
)


@pytest.mark.slow
@settings(
    max_examples=30,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(n=st.integers(0, 14), steps=st.lists(STEPS, min_size=2, max_size=4))
def test_any_pipeline_equals_its_model_and_may_be_restored_anywhere(check_states, n, steps):
    def make():
        dataset = Dataset.range(n)
        for change, _ in steps:
            dataset = change(dataset)
        return dataset.take(24)

    values = list(range(n))
    for _, change in steps:
        values = change(values)

    outcome = check_states(make, blocks=(1, 3, 64), max_state=5000)

    assert [int(x[1]) for x in outcome if isinstance(x, tuple)] == values[:24]


def test_a_training_pipeline_restores_in_the_middle_of_everything():
    def sentences(doc):
        return Dataset.range(doc * 100, doc * 100 + 20 + doc % 7).shuffle(8)

    def make():
        return (
            Dataset.range(30)
            .shuffle(10)
            .interleave(sentences, 4, 2)
            .map(lambda x: (x, np.arange(x % 5)))
            .shuffle(50)
            .padded_batch(4)
            .prefetch(3)
        )

    with iter(make()) as it:
        states, batches = [it.state()], []
        for batch in it:
            batches.append(batch[0].tolist())
            states.append(it.state())

    assert sorted(x for batch in batches for x in batch) == sorted(
        x for doc in range(30) for x in range(doc * 100, doc * 100 + 20 + doc % 7)
    )
    for position in (0, 1, 7, 40, 100, len(batches) - 1, len(batches)):
        with make().iterator(json.loads(json.dumps(states[position]))) as it:
            assert [batch[0].tolist() for batch in it] == batches[position:]
    assert max(len(json.dumps(state)) for state in states) < 1024


@pytest.mark.parametrize("size", [1, 5, 64])
def test_functions_below_any_buffer_are_called_for_what_it_holds_only(counted, size):
    fn = counted(lambda x: x)
    dataset = Dataset.range(10_000).map(fn).batch(2).shuffle(size).unbatch().batch(3).prefetch(2)
    with iter(dataset) as it:
        returned = {int(x) for _ in range(1000) for x in next(it)}
        state = it.state()
    fn.calls.clear()

    with dataset.iterator(state) as it:
        next(it)
    again = returned & set(fn.calls)

    assert len(again) <= 2  # a batch of two, half of which was returned
    assert len(fn.calls) <= 2 * (size + 1) + 3 * 3 + 256


def test_an_error_in_a_nest_is_raised_once():
    dataset = (
        Dataset.range(20)
        .map(picky(10))
        .batch(2)
        .prefetch(2)
        .shuffle(3, seed=1)
        .flat_map(lambda x: Dataset.from_tensor_slices(x))
    )
    values, failures = [], 0
    with iter(dataset) as it:
        while True:
            try:
                values.append(int(next(it)))
            except TransformError:
                failures += 1
            except StopIteration:
                break

    assert sorted(values) == [x for x in range(20) if x not in (3, 13)]
    assert failures == 2


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.prefetch(2),
        lambda d: d.map(picky(10)).prefetch(2),
        lambda d: d.interleave(lambda x: Dataset.range(x, x + 1), 2, 1, 2),
        lambda d: d.map(picky(10)).interleave(lambda x: Dataset.range(x, x + 1), 2, 1, 2),
        lambda d: d.interleave(lambda x: Dataset.range(picky(10)(x), x + 1), 2, 1, 2),
        lambda d: d.interleave(lambda x: Dataset.range(picky(10)(x), x + 1), 2, 1, 2, False),
        lambda d: d.flat_map(lambda x: Dataset.range(picky(10)(x), x + 1)).prefetch(2),
        lambda d: d.map(picky(10)).shuffle(3).batch(2).prefetch(2),
        lambda d: d.map(picky(10), num_parallel_calls=2),
        lambda d: d.map(picky(10), num_parallel_calls=2, deterministic=False),
        lambda d: d.prefetch(2).map(lambda x: object(), num_parallel_calls=2),
        lambda d: d.prefetch(2).filter(lambda x: picky(10)(x) >= 0),
        lambda d: d.prefetch(2).filter(lambda x: int(x)),
        lambda d: d.prefetch(2).map(picky(10)),
        lambda d: Dataset.from_sequence(Picky(10)).prefetch(2),
        lambda d: Dataset.zip(d.prefetch(2), Dataset.from_sequence(Picky(10))),
        lambda d: Dataset.zip(d.prefetch(2), Dataset.from_generator(lambda: map(picky(10), d))),
    ],
)
def test_an_error_does_not_keep_a_dropped_iterator_and_its_threads_alive(change):
    it = iter(change(Dataset.range(1000)))
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(TransformError):
            for _ in range(100):
                next(it)

        del it

        deadline = time.monotonic() + 10
        while any(t.name.startswith("penstock") for t in threading.enumerate()):
            assert time.monotonic() < deadline, "a thread was left behind"
            time.sleep(0.001)
    finally:
        gc.enable()

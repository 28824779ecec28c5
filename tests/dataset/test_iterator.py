"""`DatasetIterator`: what users hold."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from penstock.dataset import iterator
from penstock.dataset.dataset import Dataset
from penstock.element import rebuild
from penstock.errors import Closed, ElementError, StateError, TransformError


def picky(x):
    if x % 5 == 2:
        raise ValueError(f"not {x}")
    return x


def test_an_iterator_is_its_own_iterator():
    it = iter(Dataset.range(3))

    assert iter(it) is it
    assert list(it) == [0, 1, 2]


def test_the_end_stays_the_end():
    it = iter(Dataset.range(1))

    assert next(it) == 0
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(it)


def test_after_an_error_the_next_element_follows():
    it = iter(Dataset.range(9).map(picky))
    seen = []
    while True:
        try:
            seen.append(next(it))
        except TransformError as exc:
            seen.append(f"failed {exc.number}")
        except StopIteration:
            break

    assert seen == [0, 1, "failed 2", 3, 4, 5, 6, "failed 7", 8]


def test_a_state_is_valid_before_between_and_behind_elements():
    make = lambda: Dataset.range(40).map(lambda x: x + 1).filter(lambda x: x % 3 != 0).batch(4)
    whole = [batch.tolist() for batch in make()]
    it = iter(make())
    states = [it.state()]
    for _ in whole:
        next(it)
        states.append(it.state())
    with pytest.raises(StopIteration):
        next(it)
    states.append(it.state())

    for position, state in enumerate(json.loads(json.dumps(states))):
        tail = [batch.tolist() for batch in make().iterator(state)]
        assert tail == whole[position:]


def test_a_state_is_small_whatever_the_position():
    def make():
        return (
            Dataset.range(30_000)
            .map(lambda x: x, 2)
            .enumerate()
            .filter(lambda i, x: True)
            .map(lambda i, x: x)
            .concatenate(Dataset.range(3))
            .shard(2, 0)
            .skip(10)
            .take(30_000)
            .repeat()
        )

    with iter(make()) as it:
        sizes = set()
        for i in range(20_000):
            next(it)
            if i % 500 == 0:
                sizes.add(len(json.dumps(it.state())))

    assert max(sizes) < 600
    assert max(sizes) - min(sizes) < 40


def test_the_state_carries_the_seed_of_an_unseeded_run():
    make = lambda: Dataset.range(9).map(lambda x, *, rng: rng.integers(1 << 40))
    it = iter(make())
    state = it.state()
    whole = list(it)

    assert list(make().iterator(state)) == whole
    assert list(make()) != whole


def test_restore_goes_back_and_forth():
    it = iter(Dataset.range(9).map(picky).repeat(2))
    start = it.state()
    assert [next(it), next(it)] == [0, 1]
    later = it.state()

    it.restore(start)
    assert next(it) == 0
    it.restore(later)
    with pytest.raises(TransformError):
        next(it)
    assert next(it) == 3


def test_restore_brings_an_ended_iterator_back():
    it = iter(Dataset.range(3))
    state = it.state()
    list(it)

    it.restore(state)

    assert list(it) == [0, 1, 2]


@pytest.mark.slow
def test_a_state_fits_another_process(tmp_path):
    code = """
import json, sys
from penstock import Dataset
from penstock.element import rebuild
made = Dataset.range(30).map(lambda x, *, rng: x + 100 * rng.integers(9))
it = made.filter(lambda x: x % 7 > 2).repeat(2).iterator(json.loads(sys.argv[1]))
if sys.argv[1] == "null":
    next(it), next(it), next(it)
    print(json.dumps(it.state()))
print(json.dumps([int(x) for x in it]))
"""
    run = lambda *args: (
        subprocess.run(
            [sys.executable, "-c", code, *args],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
    )
    state, tail = run("null").splitlines()

    assert run(state).strip() == tail


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda state: 5, "not a state of an iterator: 5"),
        (lambda state: {}, "not a state of an iterator"),
        (lambda state: [1, 2], "not a state of an iterator"),
        (lambda state: {**state, "v": 9}, "this state has version 9"),
        (lambda state: {**state, "pipeline": "0range"}, "the state was taken of another pipeline"),
        (lambda state: {**state, "at": "no"}, "does not fit"),
        (lambda state: {**state, "at": [1, [99]]}, "does not fit range.*stands at 99 of 9"),
    ],
)
def test_what_is_no_state_is_named_and_the_iterator_stays_where_it_is(spoil, words):
    it = iter(Dataset.range(9).map(lambda x: x))
    next(it)

    with pytest.raises(StateError, match=words):
        it.restore(spoil(it.state()))

    assert next(it) == 1


def test_a_state_of_another_pipeline_names_both():
    state = iter(Dataset.range(9).take(2)).state()

    with pytest.raises(StateError, match="'0take 1range', this dataset has '0skip 1range'"):
        Dataset.range(9).skip(2).iterator(state)


def test_parameters_and_functions_may_change_between_states():
    it = iter(Dataset.range(9).map(picky, 2))
    assert [next(it), next(it)] == [0, 1]
    state = it.state()
    it.close()

    assert list(Dataset.range(9).map(lambda x: -x).iterator(state)) == list(range(-2, -9, -1))


def test_a_closed_iterator_says_so():
    it = iter(Dataset.range(9))
    next(it)
    it.close()
    it.close()

    for call in (it.__next__, it.state, lambda: it.restore(None)):
        with pytest.raises(Closed, match="this iterator was closed"):
            call()


def test_leaving_a_with_block_closes():
    with iter(Dataset.range(9)) as it:
        next(it)

    with pytest.raises(Closed):
        next(it)


@pytest.mark.parametrize("calls", [None, 2])
def test_close_from_another_thread_ends_a_wait(calls):
    began, gate = threading.Event(), threading.Event()

    def stuck(x):
        began.set()
        gate.wait(20)
        return x

    it = iter(Dataset.range(9).map(stuck, calls))
    outcome = []

    def read():
        try:
            outcome.append(next(it))
        except Closed as exc:
            outcome.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    assert began.wait(20)

    started = time.monotonic()
    it.close()
    assert time.monotonic() - started < 1
    if calls is None:
        gate.set()  # a function in the reader's own thread cannot be left
    reader.join(20)
    gate.set()

    assert [type(x) for x in outcome] == [Closed]


def test_elements_that_were_made_are_not_given_after_close():
    it = iter(Dataset.range(1000))
    for _ in range(10):
        next(it)

    it.close()

    with pytest.raises(Closed):
        next(it)


def test_an_interrupted_element_is_not_lost():
    interrupts = [KeyboardInterrupt, KeyboardInterrupt]

    def interrupted(x):
        if x == 5 and interrupts:
            raise interrupts.pop()
        return x

    it = iter(Dataset.range(9).map(interrupted).filter(lambda x: True))
    seen = []
    for _ in range(11):
        try:
            seen.append(next(it))
        except KeyboardInterrupt as exc:
            seen.append(type(exc))

    assert [x for x in seen if not isinstance(x, type)] == list(range(9))
    assert len(seen) == 11


def test_an_element_that_is_a_dataset_cannot_be_handed_out():
    nested = iter(Dataset.range(300).map(lambda x: (x, Dataset.range(2))))

    for _ in range(5):
        with pytest.raises(ElementError, match="flatten it first"):
            next(nested)


def test_blocks_grow_for_fast_pipelines_and_not_for_slow_ones(counted_blocks):
    list(Dataset.range(10_000))
    fast = counted_blocks.copy()
    counted_blocks.clear()
    list(Dataset.range(5).map(lambda x: time.sleep(0.003) or x))

    assert max(fast) == iterator.MAX_BLOCK
    assert len(fast) < 1000
    assert max(counted_blocks) <= 2


@pytest.fixture
def counted_blocks(monkeypatch):
    asked = []
    original = iterator.BlockSizer.learn

    def learn(self, seconds, count):
        asked.append(self.n)
        original(self, seconds, count)

    monkeypatch.setattr(iterator.BlockSizer, "learn", learn)
    return asked


async def test_async_for_reads_all():
    seen = [x async for x in iter(Dataset.range(700).map(lambda x: x))]

    assert seen == list(range(700))


async def test_async_for_does_not_block_the_loop():
    gate = threading.Event()

    def wait(x):
        assert gate.wait(20)
        return x

    it = iter(Dataset.range(2).map(wait))
    element = asyncio.ensure_future(anext(it))
    await asyncio.sleep(0)
    gate.set()

    assert await element == 0


async def test_a_cancelled_wait_loses_no_element():
    gate = threading.Event()

    def wait(x):
        assert gate.wait(20)
        return x

    it = iter(Dataset.range(3).map(wait))
    waiting = asyncio.ensure_future(anext(it))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()

    assert [x async for x in it] == [0, 1, 2]


async def test_errors_and_the_end_come_to_async_readers():
    it = iter(Dataset.range(4).map(picky))

    assert [await anext(it), await anext(it)] == [0, 1]
    with pytest.raises(TransformError):
        await anext(it)
    assert await anext(it) == 3
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(it)


def test_a_dropped_iterator_is_collected():
    before = threading.active_count()
    for _ in range(20):
        it = iter(Dataset.range(1000).map(lambda x: x, 2))
        next(it)
    del it
    gc.collect()

    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.active_count() <= before


@pytest.mark.slow
def test_a_process_may_end_with_an_open_iterator():
    code = """
import threading
from penstock import Dataset
from penstock.element import rebuild
it = iter(Dataset.range(1000).map(lambda x: threading.Event().wait() if x == 5 else x, 3))
print(next(it))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "0\n"
    assert done.stderr == ""


def test_elements_are_arrays_scalars_and_text():
    it = iter(Dataset.from_sequence([1, 2.5, "a", b"b", True, [1, 2]]))

    assert [type(x) for x in it] == [np.int64, np.float64, str, bytes, np.bool_, np.ndarray]


@pytest.mark.parametrize(
    "change",
    [
        {"at": "text"},
        {"at": [1, [2]]},
        {"at": {"next": 10**30}},
        {"seed": "one"},
        {"v": [[[[]]]] * 1000},
    ],
    ids=str,
)
def test_a_state_that_was_changed_is_refused_as_a_state_at_the_latest_with_its_first_element(
    change,
):
    dataset = Dataset.range(20).shuffle(5).batch(2).map(lambda x: x, num_parallel_calls=2)
    state = iter(dataset).state()

    with pytest.raises(StateError) as told:
        next(dataset.iterator({**state, **change}))
    assert len(str(told.value)) < 2000


def test_a_state_nested_without_end_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    dataset = Dataset.range(20).shuffle(5)
    state = iter(dataset).state()

    for wrong in (deep, {**state, "at": deep}, {**state, "pipeline": deep}):
        with pytest.raises(StateError):
            next(dataset.iterator(wrong))


def test_too_few_leaves_in_a_state_are_an_error_and_no_end():
    with pytest.raises(ValueError, match="too few"):
        rebuild(("a", "b"), ["x"])


def test_what_is_at_hand_comes_in_its_place_and_nothing_is_waited_for():
    elements = iter(Dataset.range(500))
    assert elements.at_hand("nothing yet") == "nothing yet"
    got, waits = [], 0
    while len(got) < 500:
        element = elements.at_hand(None)
        if element is None:
            element, waits = next(elements), waits + 1
        got.append(int(element))

    assert got == list(range(500))
    assert 0 < waits < 250
    assert elements.at_hand("the end") == "the end"

"""Several threads, or coroutines, read one iterator: each element comes to one of them."""

import asyncio
import itertools
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed, TransformError
from penstock.options import AUTOTUNE

N = 1200
THREADS = 5


def plain(x):
    return x


SOURCES = {
    "range": lambda path: Dataset.range(N),
    "slices": lambda path: Dataset.from_tensor_slices(np.arange(N)),
    "sequence": lambda path: Dataset.from_sequence(range(N)),
    "generator": lambda path: Dataset.from_generator(lambda: iter(range(N))),
    "counter": lambda path: Dataset.counter().take(N),
    "text": lambda path: Dataset.text_lines([lines(path)]).map(int),
}

OPERATORS = {
    "none": lambda ds: ds,
    "map": lambda ds: ds.map(plain),
    "map in threads": lambda ds: ds.map(plain, 3),
    "map as completed": lambda ds: ds.map(plain, 3, deterministic=False),
    "map with AUTOTUNE": lambda ds: ds.map(plain, AUTOTUNE).prefetch(AUTOTUNE),
    "filter": lambda ds: ds.filter(lambda x: True),
    "batch": lambda ds: ds.batch(7).unbatch(),
    "padded_batch": lambda ds: ds.padded_batch(7).unbatch(),
    "rebatch": lambda ds: ds.batch(7).rebatch(11).unbatch(),
    "window": lambda ds: ds.window(9).flat_map(lambda w: w),
    "shuffle": lambda ds: ds.shuffle(100),
    "cache": lambda ds: ds.cache(),
    "prefetch": lambda ds: ds.prefetch(16),
    "flat_map": lambda ds: ds.batch(10).flat_map(Dataset.from_tensor_slices),
    "interleave": lambda ds: ds.batch(10).interleave(Dataset.from_tensor_slices, 4, 2),
    "interleave in threads": lambda ds: ds.batch(10).interleave(
        Dataset.from_tensor_slices, 4, 2, num_parallel_calls=3
    ),
    "group_by_window": lambda ds: ds.group_by_window(
        lambda x: x % 3, lambda _, w: w.batch(5), 5
    ).unbatch(),
    "pack": lambda ds: (
        ds.batch(3).pack(7, None, buffer=5).map(lambda pack: pack["tokens"]).unbatch()
    ),
    "balance": lambda ds: ds.balance(3, lambda x: x % 5, 20),
    "mixture": lambda ds: Dataset.mixture(
        {"a": ds.take(N // 2), "b": ds.skip(N // 2)}, {"a": 1, "b": 2}, stop="drop"
    ),
    "mixture of streams": lambda ds: Dataset.mixture(
        {"a": ds.take(N // 2), "b": ds.skip(N // 2)},
        {"a": 1, "b": 2},
        unit="tokens",
        length=lambda x: 1 + x % 3,
        stop="drop",
    ),
    "zip": lambda ds: Dataset.zip((ds, ds)).map(lambda x, y: x),
    "concatenate": lambda ds: ds.take(N // 2).concatenate(ds.skip(N // 2)),
    "sample": lambda ds: Dataset.sample_from_datasets([ds.take(N // 2), ds.skip(N // 2)], seed=1),
    "repeat": lambda ds: ds.take(N // 4).repeat(4).enumerate().map(lambda i, _: i),
    "scan": lambda ds: ds.scan(0, lambda state, x: (state + 1, x)),
    "unique": lambda ds: ds.unique(),
    "ignore_errors": lambda ds: ds.ignore_errors(),
}


def lines(path):
    file = path / "lines"
    file.write_text("".join(f"{i}\n" for i in range(N)))
    return file


@pytest.fixture(autouse=True)
def frequent_turns():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def read_by_threads(it, count=THREADS):
    """What each of so many threads got, once all of them came to the end."""
    with ThreadPoolExecutor(count) as pool:
        reading = [pool.submit(list, it) for _ in range(count)]
        return [job.result(60) for job in reading]


@pytest.mark.quick(21)
@pytest.mark.parametrize("operator", OPERATORS)
def test_each_element_comes_to_one_thread_and_the_end_to_all(operator):
    it = iter(OPERATORS[operator](Dataset.range(N)))

    parts = read_by_threads(it)

    assert sorted(int(x) for part in parts for x in part) == list(range(N))
    with pytest.raises(StopIteration):
        next(it)


@pytest.mark.parametrize("source", SOURCES)
def test_each_element_of_a_source_comes_to_one_thread(source, tmp_path):
    it = iter(SOURCES[source](tmp_path))

    parts = read_by_threads(it)

    assert sorted(int(x) for part in parts for x in part) == list(range(N))


def test_each_error_comes_to_one_thread_and_the_others_go_on():
    def picky(x):
        if x % 10 == 7:
            raise ValueError("not this one")
        return x

    it, got, errors = iter(Dataset.range(N).map(picky)), Counter(), Counter()

    def read():
        while True:
            try:
                got[int(next(it))] += 1
            except TransformError as exc:
                errors[exc.number] += 1
            except StopIteration:
                return

    with ThreadPoolExecutor(THREADS) as pool:
        for job in [pool.submit(read) for _ in range(THREADS)]:
            job.result(60)

    assert set(got) == {x for x in range(N) if x % 10 != 7}
    assert sum(errors.values()) == N // 10
    assert set(got.values()) | set(errors.values()) == {1}


def test_closing_ends_the_wait_of_threads_behind_one_that_is_stuck():
    began, gate = threading.Event(), threading.Event()

    def stuck(x):
        began.set()
        gate.wait(60)
        return x

    it = iter(Dataset.range(9).map(stuck))
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(next, it)
        assert began.wait(60)
        behind = [pool.submit(next, it) for _ in range(3)]
        it.close()
        for job in behind:
            with pytest.raises(Closed):
                job.result(60)
        gate.set()
        with pytest.raises(Closed):
            first.result(60)


def test_a_state_may_be_taken_while_another_thread_waits_and_nothing_is_missing_then():
    began, gate = threading.Event(), threading.Event()

    def wait(x):
        if x == 5:
            began.set()
            gate.wait(60)
        return x

    it, got = iter(Dataset.range(9).map(wait)), []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: [got.append(int(x)) for x in it])
        assert began.wait(60)
        state, before = it.state(), len(got)
        gate.set()
        reading.result(60)

    rest = [int(x) for x in Dataset.range(9).map(plain).iterator(state)]
    assert rest == list(range(before, 9))


def test_a_state_that_is_taken_while_threads_read_stands_between_two_elements():
    ds = Dataset.range(N).map(plain).shuffle(20, seed=3)
    it = iter(ds)
    order = [int(x) for x in ds.iterator(it.state())]

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(list, it) for _ in range(2)]
        states = list(itertools.islice(iter(it.state, None), 12))
        for job in reading:
            job.result(60)

    for state in states:
        rest = [int(x) for x in ds.iterator(state)]
        assert rest == order[N - len(rest) :]


async def test_each_element_comes_to_one_coroutine_and_the_end_to_all():
    it = iter(Dataset.range(300).map(plain, 2).prefetch(4))

    async def read():
        return [int(x) async for x in it]

    parts = await asyncio.gather(*(read() for _ in range(4)))

    assert sorted(itertools.chain(*parts)) == list(range(300))


async def test_elements_on_their_way_to_coroutines_that_are_cancelled_come_to_others():
    gate = threading.Event()

    def wait(x):
        assert gate.wait(60)
        return x

    it = iter(Dataset.range(9).map(wait))
    waiting = [asyncio.ensure_future(anext(it)) for _ in range(3)]
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    gate.set()

    assert sorted([int(x) async for x in it]) == list(range(9))

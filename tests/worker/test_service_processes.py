"""The worker with real runner processes: from a pipeline to its elements, and what goes wrong."""

import faulthandler
import os
import signal
import tempfile
import time
from contextlib import asynccontextmanager

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import ElementTooLarge, TransformError
from penstock.frames.frame import unpack
from penstock.protocol.cache import Cached
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import Grouped, Remainder
from penstock_worker import runners
from penstock_worker.runner.pool import RunnerPool


@pytest.fixture
def mesh(busy, dispatcher, nothing_left):
    """A worker that runs *dataset* as task 1, and makes readers of it."""
    at_work, reader_type = busy

    class Reader(reader_type):
        def elements(self, header, payload):
            return unpack(header.layout, payload)

    @asynccontextmanager
    async def run(
        dataset, *, units=None, grouped=None, cached=None, cache=1 << 30, limits=(), **settings
    ):
        dispatcher.definition = encode(dataset.node).to_bytes()
        dispatcher.source = range(units or 0)
        readers = []

        def reader(**kwargs):
            readers.append(Reader(worker, 8, **kwargs))
            return readers[-1]

        shared = {"cross_trainer_cache_size_bytes": cache, "limits": dict(limits), **settings}
        pool = RunnerPool(cache_bytes=cache, **dict(limits), **settings)
        async with pool, at_work(pool, dispatcher, **shared) as worker:
            streams = 0 if units is None else 1
            dispatcher.assign(1, streams=streams, grouped=grouped, cached=cached)
            yield worker, reader
            for one in readers:
                await one.close()

    return run


async def test_splits_make_the_elements_of_their_units(mesh, dispatcher):
    async with mesh(Dataset.range(100).map(lambda x: x + 1), units=100) as (_, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == list(range(1, 101))
        await dispatcher.until_done(1)


async def test_consumers_get_their_groups_of_a_task_that_is_larger_than_the_room_for_it(mesh, wait):
    dataset = Dataset.range(65).map(lambda x: np.full(100_000, x))
    grouped = Grouped(2, 0, Remainder.PAD)
    async with mesh(dataset, grouped=grouped, buffer_bytes=4 << 20) as (worker, reader):
        loops = [reader(reader=n + 1, wants=(n, 0), credit=2 << 20) for n in range(2)]
        for loop in loops:
            await loop.open()
        for group in range(33):
            for loop in loops:
                await wait(lambda loop=loop, group=group: len(loop.frames) > group)
                loop.say(RangeSet.of((0, 2 * group)), 800_000)
            assert worker.stats().buffers[0].nbytes <= 4 << 20

    assert [[(f.group, f.first, f.count) for f in loop.frames] for loop in loops] == [
        [(group, 2 * group, 1) for group in range(33)],
        [*((group, 2 * group + 1, 1) for group in range(32)), (32, 64, 1)],
    ]
    assert [loop.frames[-1].filler for loop in loops] == [False, True]
    assert all(int(loops[1].buffer[n][0]) == n for n in range(1, 64, 2))


async def test_a_cached_task_keeps_more_than_an_ordinary_one_and_trainers_share_it(mesh, wait):
    dataset = Dataset.range(60).map(lambda x: np.full(100_000, x))
    sizes = {"buffer_bytes": 4 << 20, "cache": 40 << 20}
    async with mesh(dataset, cached=Cached("job"), **sizes) as (worker, reader):
        one = reader(reader=1, trainer="a", credit=1 << 30)
        await one.open()
        await wait(lambda: len(one.buffer) == 60)
        two = reader(reader=2, trainer="b", credit=1 << 30)
        await two.open()
        (cache,) = worker.stats().caches
        await wait(lambda: len(two.buffer) == 60 - cache.oldest)
        (cache,) = worker.stats().caches

    assert 32 << 20 < cache.nbytes <= cache.bound == 40 << 20
    assert all(int(array[0]) == n for loop in (one, two) for n, array in loop.buffer.items())
    assert min(two.buffer) == cache.oldest > 0
    assert (cache.job, cache.made, cache.sent) == ("job", 60, 120 - cache.oldest)
    assert cache.hit_rate == cache.sent / 60
    assert [(t.trainer, t.acked, t.skipped, t.before) for t in cache.trainers] == [
        ("a", 0, 0, 0), ("b", cache.oldest, 0, cache.oldest)
    ]  # fmt: skip


@pytest.mark.parametrize("copied", [0, 1 << 30])
async def test_the_window_of_a_cached_task_survives_its_runner(
    mesh, dispatcher, wait, monkeypatch, copied
):
    monkeypatch.setattr(runners, "COPIED", copied)

    def fatal(x):
        if x == 40 and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()  # noqa: PTH123, SIM115
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full(100_000, x)

    with tempfile.TemporaryDirectory() as folder:
        marker = f"{folder}/died"
        dataset = Dataset.range(60).map(fatal)
        sizes = {"buffer_bytes": 4 << 20, "cache": 100 << 20}
        async with mesh(dataset, cached=Cached("job"), **sizes) as (worker, reader):
            one = reader(reader=1, trainer="a", credit=1 << 30)
            await one.open()
            await wait(lambda: len(one.buffer) == 60)
            two = reader(reader=2, trainer="b", credit=1 << 30)
            await two.open()
            await wait(lambda: len(two.buffer) == 60)
            stats = worker.stats()
            assert stats.runners_lost == 1
            assert 30 * 800_000 < stats.buffers[-2].nbytes <= 40 * 800_000
            dispatcher.withdraw(1)
            await wait(lambda: worker.stats().buffers[-2].nbytes == 0)

    assert all(int(array[0]) == n for loop in (one, two) for n, array in loop.buffer.items())


async def test_two_readers_share_a_task_that_is_larger_than_the_room_for_it(mesh, wait):
    dataset = Dataset.range(64).map(lambda x: np.full(100_000, x))
    async with mesh(dataset, buffer_bytes=4 << 20) as (worker, reader):
        one, two = reader(reader=1, credit=2 << 20), reader(reader=2, credit=2 << 20)
        await one.open()
        await two.open()
        while not (one.end and two.end):
            await wait(lambda: one.buffer or two.buffer or (one.end and two.end))
            for loop in (one, two):
                if loop.buffer:
                    number = min(loop.buffer)
                    assert loop.buffer[number].shape == (100_000,)
                    loop.size = 800_000
                    loop.take()
                assert worker.stats().buffers[0].nbytes <= 4 << 20

        acked = sorted(int(element[0]) for loop in (one, two) for _, element in loop.acked)
        assert acked == list(range(64))


async def test_an_element_larger_than_all_credit_is_delivered(mesh):
    async with mesh(Dataset.range(3).map(lambda x: np.full(500_000, x))) as (_, reader):
        one = reader(credit=1)
        one.size = 4_000_000
        await one.open()

        assert [int(element[7]) for element in await one.take_all()] == [0, 1, 2]


async def test_an_exception_in_user_code_comes_behind_what_was_produced(mesh):
    def fragile(x):
        if x == 500:
            raise KeyError("no such sample")
        return x

    async with mesh(Dataset.range(1000).map(fragile)) as (_, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == list(range(500))
        error = one.end.failure.error()
        assert isinstance(error, TransformError)
        assert (error.number, error.worker) == (500, "host:1")
        assert "in fragile" in error.remote_traceback


async def test_a_runner_that_is_killed_is_replaced_and_nothing_is_missing(mesh, dispatcher, wait):
    def slow(x):
        time.sleep(0.005)  # so slow that each element travels alone
        return x, os.getpid()

    async with mesh(Dataset.range(60).map(slow)) as (worker, reader):
        one = reader()
        await one.open()
        await wait(lambda: 19 in one.buffer)

        os.kill(int(one.buffer[0][1]), signal.SIGKILL)

        elements = await one.take_all()
        assert [int(x) for x, _ in elements] == list(range(60))
        assert len({int(pid) for _, pid in elements}) == 2
        await dispatcher.until_done(1)
        assert worker.stats().runners_lost == 1
        assert dispatcher.progress(1).counts.replayed >= 20


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "die",
    [lambda: os._exit(7), lambda: os.kill(os.getpid(), signal.SIGSEGV)],
    ids=["exit", "signal"],
)
async def test_user_code_that_ends_its_process_now_and_then_costs_nothing(
    mesh, dispatcher, tmp_path, die
):
    def fragile(x):
        if x % 100 == 50 and not (tmp_path / str(x)).exists():
            (tmp_path / str(x)).touch()
            faulthandler.disable()
            die()
        return x

    async with mesh(Dataset.range(400).map(fragile)) as (worker, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == list(range(400))
        await dispatcher.until_done(1)
        assert worker.stats().runners_lost == 4


@pytest.mark.slow
async def test_user_code_that_always_ends_its_process_is_named_with_the_element(mesh, wait):
    def fragile(x):
        if x == 7_777:
            os._exit(3)
        return x

    async with mesh(Dataset.range(20_000).map(fragile)) as (worker, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == list(range(7_777))
        error = one.end.failure.error()
        assert (error.operator, error.number, error.worker) == ("runner", 7_777, "host:1")
        assert "exit code 3" in str(error)


async def test_a_definition_that_ends_its_process_as_it_is_loaded_is_an_error(mesh):
    class Deadly:
        def __reduce__(self):
            return os._exit, (9,)

    deadly = Deadly()
    async with mesh(Dataset.range(3).map(lambda x: (x, deadly))) as (worker, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == []
        assert "exit code 9" in str(one.end.failure.error())
        assert one.end.failure.error().number == 0
        assert worker.stats().runners_lost == 3


async def test_frames_of_a_dead_runner_are_sent_again_to_readers_that_lost_them(
    mesh, wait, tmp_path
):
    def fragile(x):
        if x == 20 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    async with mesh(Dataset.range(30).map(fragile)) as (worker, reader):
        one = reader(credit=1)
        await one.open()
        await wait(lambda: worker.stats().runners_lost == 1)
        one.credit = 1 << 20

        await one.open(keep=False)

        assert await one.take_all() == list(range(30))


async def test_an_element_that_is_too_large_is_an_error_of_its_task(mesh):
    dataset = Dataset.range(3).map(lambda x: np.zeros(100_000))
    async with mesh(dataset, limits={"max_element_bytes": 1000}) as (_, reader):
        one = reader()
        await one.open()

        assert await one.take_all() == []
        assert isinstance(one.end.failure.error(), ElementTooLarge)


async def test_runners_of_a_task_that_is_withdrawn_go_on_with_another(mesh, dispatcher, wait):
    async with mesh(Dataset.range(10).map(lambda x: (x, os.getpid()))) as (worker, reader):
        pids = set()
        for task in (1, 2, 3):
            if task > 1:
                dispatcher.assign(task)
            one = reader(task=task)
            await one.open()
            await one.take_all()
            pids |= {int(pid) for _, (_, pid) in one.acked}
            dispatcher.withdraw(task)
            await wait(lambda: not worker.stats().tasks and not worker._runners._tasks)

        assert len(pids) == 1

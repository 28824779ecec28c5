"""Runners as processes: started, kept idle, stopped, gone."""

import asyncio
import gc
import os
import random
import signal
import sys
import threading

import numpy as np
import pytest
import uvloop

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed, ConfigError, DefinitionError, Overloaded, TransformError
from penstock.protocol.splits import Split
from penstock.protocol.types import Codec
from penstock_worker.runner.messages import FrameReady, FreeFrames, RunEnded, RunFailed
from penstock_worker.runner.pool import RunnerPool
from penstock_worker.runner.process import RunnerPhase


def same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_equal(one, other)


def files():
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def fill(x):
    return np.full(1 << 20, x, np.uint8)


@pytest.mark.parametrize("codec", Codec)
async def test_a_runner_makes_what_a_local_run_makes(workplace, codec):
    dataset = Dataset.range(3000).map(lambda x: {"x": x, "row": np.full(100, x)}).batch(7)

    reading = await workplace.read(dataset, codec=codec)

    same(reading.elements, list(dataset))
    assert isinstance(reading.reports[-1], RunEnded)


@pytest.mark.quick(1)
@pytest.mark.parametrize("codec", Codec)
async def test_elements_of_coordinated_reads_travel_alone(workplace, codec):
    dataset = Dataset.range(3000).map(lambda x: {"x": x, "row": np.full(x % 50, x)})

    reading = await workplace.read(dataset, codec=codec, consumers=1)

    same(reading.elements, list(dataset))
    assert {made.count for made in reading.made} == {1}


async def test_a_runner_is_kept_for_the_next_run(workplace):
    dataset = Dataset.range(10)

    readings = [await workplace.read(dataset, run=run) for run in range(5)]

    assert len({reading.runner.pid for reading in readings}) == 1
    assert all(reading.elements == list(range(10)) for reading in readings)


def changes_its_process(x):
    os.environ["LEFT_BY_ANOTHER"] = "1"
    os.chdir("/")
    np.random.seed(0)
    np.seterr(all="ignore")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.modules["left_by_another"] = sys
    threading.current_thread().left_by_another = True
    return x


def looks_at_its_process(x):
    return (
        "LEFT_BY_ANOTHER" in os.environ,
        os.getcwd() == "/",
        np.random.get_state()[1].sum() == np.random.RandomState(0).get_state()[1].sum(),
        np.geterr()["divide"] == "ignore",
        signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN,
        "left_by_another" in sys.modules,
        hasattr(threading.current_thread(), "left_by_another"),
    )


async def test_what_a_function_changes_in_its_process_reaches_no_other_dataset(workplace):
    left = await workplace.read(Dataset.range(1).map(changes_its_process), run=1)
    other = await workplace.read(Dataset.range(1).map(looks_at_its_process), run=2)

    assert other.elements == [(False,) * 7]
    assert other.runner.pid != left.runner.pid


async def test_idle_runners_make_room_for_the_runner_of_another_dataset(working, monkeypatch):
    async with working(keep_idle=4) as workplace:
        first = await workplace.read(Dataset.range(10), run=1)
        fork = workplace.pool.forks.fork

        async def fork_if_there_is_room(*args):
            if first.runner.phase is not RunnerPhase.DEAD:
                raise Overloaded("no room")
            return await fork(*args)

        monkeypatch.setattr(workplace.pool.forks, "fork", fork_if_there_is_room)
        second = await workplace.read(Dataset.range(20), run=2)

        assert second.elements == list(range(20))


async def test_a_run_goes_to_the_runner_that_has_its_dataset(workplace):
    one, other = Dataset.range(10), Dataset.range(20)
    first = await workplace.begin(one, run=1)
    second = await workplace.begin(other, run=2)
    for reading in (first, second):
        await (await reading.end()).runner.stop()

    again = await workplace.read(one, run=3)

    assert again.runner is first.runner


async def test_runs_at_once_have_a_runner_each(workplace):
    dataset = Dataset.range(1000).map(lambda x: x * x)

    readings = await asyncio.gather(*(workplace.begin(dataset, run=run) for run in range(4)))
    await asyncio.gather(*(reading.end() for reading in readings))

    assert len({reading.runner.pid for reading in readings}) == 4
    for reading in readings:
        same(reading.elements, list(dataset))


async def test_idle_runners_beyond_the_limit_are_ended(working):
    async with working(keep_idle=1) as workplace:
        readings = [await workplace.begin(Dataset.range(3), run=run) for run in range(3)]
        gone = [os.pidfd_open(reading.runner.pid) for reading in readings]
        for reading in readings:
            await (await reading.end()).runner.stop()

        for pidfd in gone[:2]:
            await ended(pidfd)
        again = await workplace.read(Dataset.range(3), run=9)
    await ended(gone[2])

    assert again.runner is readings[2].runner


async def ended(pidfd):
    """Wait until a process is gone, whose ever it was."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(pidfd, over.set_result, None)
    async with asyncio.timeout(10):
        await over
    loop.remove_reader(pidfd)
    os.close(pidfd)


async def test_a_full_arena_holds_only_its_own_runner_up(working):
    async with working(buffer_bytes=2 << 20) as workplace:
        unacked = await workplace.begin(Dataset.range(5).map(fill), free=False)
        await unacked.until(lambda reading: len(reading.made) == 2)

        other = await workplace.read(Dataset.range(5), run=2)
        before = len(unacked.made)
        unacked.runner.send(FreeFrames(1, tuple(made.offset for made in unacked.made)))
        await unacked.until(lambda reading: len(reading.made) == 4)

    assert other.elements == list(range(5))
    assert before == 2


async def test_splits_come_from_the_worker(workplace):
    splits = [*(Split(at, at + 100) for at in range(0, 1000, 100)), Split(0, 0)]

    reading = await workplace.read(Dataset.range(1000).map(lambda x: -x), splits=[splits])

    assert reading.elements == [-x for x in range(1000)]
    assert reading.states[-1].positions == (10,)


async def test_an_error_of_a_function_leaves_the_runner_warm(workplace):
    dataset = Dataset.range(9).map(lambda x: 1 / 0 if x == 5 else x)
    failing = await workplace.read(dataset)
    error = failing.reports[-1].failure.error()
    again = await workplace.read(dataset, run=2)

    assert failing.elements == list(range(5))
    assert isinstance(error, TransformError)
    assert "ZeroDivisionError" in error.remote_traceback
    assert again.runner is failing.runner


async def test_a_definition_that_cannot_be_loaded_is_an_error_of_the_run(workplace):
    reading = await workplace.read(Dataset.range(3), definition_bytes=b"nonsense")

    assert isinstance(reading.reports[-1], RunFailed)
    assert isinstance(reading.reports[-1].failure.error(), DefinitionError)


async def test_a_large_definition_arrives(workplace):
    table = np.arange(1 << 21)

    reading = await workplace.read(Dataset.range(3).map(lambda x: table[x + 1000]))

    assert reading.elements == [1000, 1001, 1002]


async def test_nothing_is_reported_of_a_run_that_was_stopped(workplace):
    reading = await workplace.begin(Dataset.range(1 << 40))
    await reading.until(lambda reading: reading.made)
    stopping = asyncio.ensure_future(reading.runner.stop())
    await asyncio.sleep(0)
    before = len(reading.reports)
    await stopping
    again = await workplace.begin(Dataset.range(1 << 40), run=2)
    await again.runner.stop()

    assert len(reading.reports) == before
    assert again.runner is reading.runner


async def test_stopping_twice_is_stopping_once(workplace):
    reading = await workplace.begin(Dataset.range(1 << 40))

    await asyncio.gather(reading.runner.stop(), reading.runner.stop())
    await reading.runner.stop()
    again = await workplace.begin(Dataset.range(1 << 40), run=2)
    await again.runner.stop()

    assert again.runner is reading.runner


async def test_a_function_that_does_not_return_costs_its_runner(working):
    async with working(patience=0.1) as workplace:
        stuck = Dataset.range(9).map(lambda x: threading.Event().wait() if x else x)
        reading = await workplace.begin(stuck)
        await reading.until(lambda reading: reading.made)
        gone = os.pidfd_open(reading.runner.pid)

        await reading.runner.stop()
        await ended(gone)

    assert [type(report) for report in reading.reports] == [FrameReady]


async def test_a_callback_that_fails_does_not_lose_the_next_report(workplace):
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    reading = await workplace.begin(Dataset.range(10))
    add = reading.add

    def add_or_fail(report, memory):
        add(report, memory)
        assert problems

    reading.add = add_or_fail
    await reading.end()

    assert len(problems) == 1
    assert isinstance(reading.reports[-1], RunEnded)


async def test_runners_differ_in_chance(workplace):
    dataset = Dataset.range(4).map(lambda x: (random.random(), np.random.random()))

    readings = [await workplace.begin(dataset, run=run) for run in range(3)]
    drawn = [(await reading.end()).elements for reading in readings]

    for one in (0, 1):
        assert len({pair[one] for elements in drawn for pair in elements}) == 12


async def test_runners_look_like_the_worker_does_when_they_are_forked(
    workplace, monkeypatch, tmp_path
):
    await workplace.read(Dataset.range(1), run=1)
    reading = await workplace.begin(Dataset.range(1), run=2)
    monkeypatch.setenv("PENSTOCK_TEST", "bytes \udcff and all")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "code")

    def look(_):
        import sys

        names = ("PENSTOCK_TEST", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH", "HOME")
        return os.getcwd(), sys.path[0], tuple(ascii(os.environ.get(name)) for name in names)

    await workplace.begin(Dataset.range(1), run=3)
    seen = await (await workplace.begin(Dataset.range(1).map(look), run=4)).end()
    await reading.end()

    assert seen.elements == [
        (
            str(tmp_path),
            str(tmp_path / "code"),
            (r"'bytes \udcff and all'", "'3'", "'1'", "'somewhere'", "None"),
        )
    ]


@pytest.mark.quick(1)
@pytest.mark.parametrize("loop", [asyncio, uvloop], ids=["asyncio", "uvloop"])
def test_a_pool_works_on_any_loop_and_leaves_no_file_behind(loop, working):
    async def use():
        async with working() as workplace:
            for run in range(3):
                reading = await workplace.read(Dataset.range(20).map(fill), run=run)
                assert len(reading.elements) == 20
            endless = await workplace.begin(Dataset.range(1 << 40), run=9)
            await endless.until(lambda reading: reading.made)

    loop.run(asyncio.sleep(0))  # uvloop opens a pipe for good with its first loop
    before = files()
    loop.run(use())

    assert len(files()) <= len(before)  # gRPC may close some of an earlier test meanwhile


async def test_a_closed_pool_starts_nothing(working):
    async with working() as workplace:
        await workplace.read(Dataset.range(10))

    with pytest.raises(Closed):
        await workplace.begin(Dataset.range(10), run=2)


@pytest.mark.parametrize("setting", ["buffer_bytes", "max_element_bytes"])
async def test_sizes_must_be_positive(setting):
    with pytest.raises(ConfigError, match=f"{setting} must be positive, not 0"):
        RunnerPool(**{setting: 0})

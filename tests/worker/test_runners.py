"""Runs of a worker: splits, failures, runners that die or cannot be had, commands that end."""

import asyncio
import errno
import random
import re

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import Overloaded, UnknownDataset
from penstock.protocol.control import ElementCounts
from penstock.protocol.data import StreamEnd
from penstock.protocol.types import Failure, TaskId
from penstock_worker.core import runner_history
from penstock_worker.runner.messages import RunFailed


async def test_splits_are_drawn_as_the_runner_needs_them(reader, dispatcher):
    dispatcher.source = range(35)
    dispatcher.assign(1, streams=1)
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(35))
    assert sorted({ask.position for ask in dispatcher.questions}) == [0, 1, 2, 3, 4]


async def test_a_failure_comes_behind_the_elements_and_names_the_worker(
    reader, dispatcher, pool, worker, wait
):
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    failure = Failure("TransformError", ("map(f)", 4, "ValueError('no')", None, "trace"))
    runner.report(RunFailed(runner.start.run, 4, failure))
    one = reader()
    await one.open()

    assert await one.take_all() == [0, 1, 2, 3]
    error = one.end.failure.error()
    assert (error.operator, error.number, error.worker) == ("map(f)", 4, "host:1")
    assert error.remote_traceback == "trace"
    await wait(lambda: dispatcher.progress(1).failure == one.end.failure)


async def test_another_runner_goes_on_where_one_has_died(reader, dispatcher, pool, worker, wait):
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    runner.die("SIGSEGV")
    assert worker[0].stats().buffers[-2].nbytes == 16
    pool.making = True
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(10))
    assert [one.start.send_from for one in pool.runners] == [0, 4]
    await dispatcher.until_done(1)
    assert dispatcher.progress(1).counts == ElementCounts(produced=14, replayed=4, sent=10)
    assert worker[0].stats().buffers[-2].nbytes == 0
    assert runner.arena == b""


async def test_a_runner_that_dies_again_and_again_is_a_failure_that_names_its_signal(
    reader, dispatcher, pool, worker, wait
):
    pool.making = False
    dispatcher.assign(1)
    for n in range(3):
        runner = (await wait(lambda n=n: pool.runners[n:]))[0]
        if n == 0:
            runner._make()
        runner.die("SIGSEGV")
    one = reader()
    await one.open()

    assert await one.take_all() == [0, 1, 2, 3]
    error = one.end.failure.error()
    assert (error.operator, error.number, error.worker) == ("runner", 4, "host:1")
    assert "the process died of SIGSEGV" in str(error)
    assert worker[0].stats().runners_lost == 3


async def test_replayed_elements_of_a_nondeterministic_pipeline_are_counted(
    reader, dispatcher, pool, wait
):
    def noise(x):
        return x + random.random()

    dispatcher.definition = encode(Dataset.range(10).map(noise).node).to_bytes()
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    runner.die("SIGSEGV")
    pool.making = True
    one = reader()
    await one.open()
    await one.take_all()

    await dispatcher.until_done(1)
    assert dispatcher.progress(1).counts.nondeterministic == 4


async def test_a_dataset_that_is_not_registered_fails_the_task(opened, dispatcher):
    dispatcher.definition = None
    one = await opened()

    assert await one.take_all() == []
    assert isinstance(one.end.failure.error(), UnknownDataset)


NO_ROOM = [
    (Overloaded("no process to be had"), "no process to be had"),
    (OSError(errno.EMFILE, "Too many open files"), r"EMFILE.*RLIMIT_NOFILE is \d+"),
    (OSError(errno.EIO, "odd"), "odd"),
    (MemoryError(), "ENOMEM.*RLIMIT_AS"),
]


@pytest.mark.parametrize(("why", "words"), NO_ROOM)
async def test_where_there_is_no_room_for_a_runner_the_attempt_goes_back_with_the_reason(
    opened, dispatcher, pool, wait, monkeypatch, why, words
):
    monkeypatch.setattr(runner_history, "TRIES", (0.0, 0.0))
    dispatcher.trusting = False
    pool.fails = why
    await opened()

    await wait(lambda: dispatcher.beats and (TaskId(1), 1) in dispatcher.beats[-1].ended)
    assert re.search(words, dispatcher.progress(1).lacking)
    assert dispatcher.progress(1).failure is None


async def test_a_runner_that_said_what_it_lacks_did_not_die(
    reader, dispatcher, pool, wait, monkeypatch, caplog
):
    monkeypatch.setattr(runner_history, "TRIES", (0.0,) * runner_history.DEATHS)
    pool.making = False
    dispatcher.assign(1)
    for n in range(runner_history.DEATHS):
        runner = (await wait(lambda n=n: pool.runners[n:]))[0]
        if n == 0:
            runner._make()
        pool.making = n == runner_history.DEATHS - 1
        runner.die("", lacking="threads")
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(10))
    assert caplog.text.count("a runner of task 1, attempt 1: threads; trying again") == 3
    assert dispatcher.progress(1).failure is None


async def test_a_runner_that_can_be_had_again_goes_on(opened, dispatcher, pool, wait, monkeypatch):
    monkeypatch.setattr(runner_history, "TRIES", (0.0,) * 1000)
    pool.fails = OSError(errno.EMFILE, "Too many open files")
    one = await opened()
    await wait(lambda: (p := dispatcher.progress(1)) and p.lacking)

    pool.fails = None

    assert len(await one.take_all()) == pool.elements
    assert dispatcher.progress(1).lacking == ""


async def test_a_bug_in_starting_a_runner_fails_the_task_and_says_so(opened, pool, caplog):
    pool.fails = LookupError("surprise")
    one = await opened()

    assert await one.take_all() == []
    assert "LookupError('surprise'); this is a bug" in str(one.end.failure.error())
    assert "could not be started" in caplog.text


async def test_a_definition_is_fetched_once_for_all_its_tasks(dispatcher, pool, worker, wait):
    dispatcher.assign(1)
    dispatcher.assign(2)
    dispatcher.assign(3, dataset="e")
    await wait(lambda: len(pool.runners) == 3)

    assert sorted(dispatcher.fetched) == ["d", "e"]


async def test_a_task_that_is_not_wanted_any_more_ends_streams_and_run(
    opened, dispatcher, pool, wait
):
    pool.making = False
    one = await opened()
    await wait(lambda: pool.runners)

    dispatcher.withdraw(1)

    assert await one.take_all() == []
    assert one.end == StreamEnd(1, 1)
    await wait(lambda: pool.stopped == pool.runners)


async def test_a_run_that_is_stopped_while_it_starts_leaves_no_runner(
    dispatcher, pool, worker, wait
):
    gate = asyncio.Event()
    start = pool.start

    async def slow_start(*args):
        await gate.wait()
        return await start(*args)

    pool.start = slow_start
    dispatcher.assign(1)
    await wait(lambda: worker[0].stats().runs_started == 1 and dispatcher.fetched)
    dispatcher.withdraw(1)
    await wait(lambda: not worker[0].stats().tasks)

    gate.set()

    await wait(lambda: pool.runners and pool.stopped == pool.runners)

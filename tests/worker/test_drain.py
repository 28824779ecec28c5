"""How a worker leaves: what it waits for, and for how long."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from penstock.protocol.data import StreamEnd
from penstock.protocol.types import Checkpoint
from penstock_worker.drain import Drain
from penstock_worker.runner.messages import CheckpointTaken, RunPaused


@pytest.fixture
def leaves(worker, dispatcher, wait):
    """Has the worker leave within some seconds; gives what is done when it may end."""
    parting = []

    @asynccontextmanager
    async def leave(drain=10.0, wish=True):
        await worker[0].control.registered.wait()
        event = asyncio.Event()
        if wish:
            event.set()
        parts = Drain(worker[0], worker[0].control, worker[0].outbox, event, drain)
        task = asyncio.create_task(parts.run())
        parting.append(task)
        yield task
        await asyncio.wait_for(task, 10)

    return leave


async def test_a_worker_without_tasks_leaves_at_once_and_says_so(leaves, dispatcher):
    began = time.monotonic()

    async with leaves():
        pass

    assert time.monotonic() - began < 0.5
    assert dispatcher.beats[-1].draining


async def test_a_worker_whose_dispatcher_is_away_leaves_at_once(
    leaves, opened, dispatcher, worker, pool, wait
):
    one = await opened()
    await wait(lambda: one.frames)
    dispatcher.absent = True
    dispatcher.hang_up()
    await wait(lambda: worker[0].control.reason)
    began = time.monotonic()

    async with leaves():
        pass

    assert time.monotonic() - began < 0.5


async def test_readers_get_what_is_produced_and_the_dispatcher_the_checkpoint_behind_it(
    leaves, opened, dispatcher, pool, worker, wait
):
    pool.elements, pool.budget = 100, 16  # one frame at a time
    one = await opened()
    await wait(lambda: one.frames)
    (runner,) = pool.runners
    async with leaves() as task:
        await wait(lambda: runner.paused)
        assert not task.done()
        runner.report(CheckpointTaken(runner.start.run, Checkpoint(4)))
        runner.report(RunPaused(runner.start.run))
        one.take(4)

    assert one.taken_numbers == [0, 1, 2, 3]
    await wait(lambda: one.end)
    assert one.end == StreamEnd(1, 1)
    assert dispatcher.requeued[1].checkpoint == Checkpoint(4)
    assert pool.stopped == [runner]


async def test_a_worker_that_is_ordered_to_leave_does(leaves, dispatcher, wait, pool):
    dispatcher.assign(1)
    await wait(lambda: pool.runners)
    async with leaves(wish=False) as task:
        assert not task.done()
        dispatcher.drain = True
        dispatcher.tell()

    assert 1 in dispatcher.requeued  # nobody read it


async def test_a_worker_leaves_at_the_deadline_with_a_last_heartbeat(
    leaves, opened, dispatcher, wait, caplog
):
    one = await opened()
    await wait(lambda: len(one.frames) == 3)
    began = time.monotonic()

    async with leaves(drain=0.3):
        one.take(5)

    assert 0.25 < time.monotonic() - began < 2
    assert dispatcher.progress(1).acked.floor == 5
    assert "leaving after drain=0.3 s with 1 tasks unfinished" in caplog.text


async def test_what_is_ordered_while_the_worker_leaves_is_handed_back(
    leaves, opened, dispatcher, worker, wait, pool
):
    one = await opened()
    await wait(lambda: len(one.frames) == 3)
    async with leaves():
        await wait(lambda: worker[0].draining.is_set())
        dispatcher.assign(2)
        await wait(lambda: 2 in dispatcher.requeued)
        one.take(10)

    assert len(pool.runners) == 1
    assert dispatcher.requeued[2].checkpoint is None

"""A dispatcher with a journal: what a restart finds."""

import asyncio
import logging
import shutil
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import JournalError, UnknownDataset
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, SplitGrant, SplitRequest
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Checkpoint
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.server import dispatching
from tests.dispatcher.durable_dispatcher import (
    folder_of,
    living,
    request,
    running,
    worker_heartbeat,
)
from tests.dispatcher.running_dispatcher import VERSIONS, Line, register


async def test_a_dispatcher_goes_on_where_one_that_was_killed_was(config, tmp_path):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10_000))
        opened = await first.open_iteration(request(dataset))
        async with running(first, opened.iteration) as (worker, reader, order, view):
            (run,) = order.tasks
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            grant = await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            shutil.copytree(config.work_dir, tmp_path / "killed")

    async with dispatching(replace(config, work_dir=str(tmp_path / "killed"))) as second:
        again = await second.open_iteration(request(dataset))
        async with running(second, again.iteration) as (worker, reader, order, seen):
            (rerun,) = order.tasks
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            redelivered = await worker.hear_until(lambda o: isinstance(o, SplitGrant))

    assert again.iteration == opened.iteration
    assert seen.reader == view.reader
    assert seen.revision >= view.revision
    assert (rerun.task, rerun.attempt, rerun.seed) == (run.task, run.attempt, run.seed)
    assert rerun.logs[0].splits == (*run.logs[0].splits, *grant.splits)
    assert redelivered == grant


async def test_after_a_stop_in_order_a_start_has_nothing_to_replay(config, caplog):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10))
        opened = await first.open_iteration(request(dataset))

    assert not list(folder_of(config).glob("*-wal"))
    journal = await asyncio.to_thread(open_journal, folder_of(config), power=False)

    assert journal._since == 0
    assert opened.iteration in journal.state.iterations
    await journal.aclose()


async def test_a_finished_job_is_one_row_that_a_restart_knows(config):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10))
        opened = await first.open_iteration(request(dataset))
        async with running(first, opened.iteration) as (worker, reader, order, _):
            (run,) = order.tasks
            at = run.logs[0].stop
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, at))
            await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            done = AttemptProgress(1, 10, AckedSet(10), Checkpoint(10, (at,)), done=True)
            worker.say(worker_heartbeat(order.revision, {run.task: done}))
            await reader.hear_until(lambda view: view.finished)

    async with dispatching(config) as second:
        again = await second.open_iteration(request(dataset))
        async with aclosing(Line(second.reader_control)) as reader:
            reader.say(ReaderHeartbeat(again.iteration, "r", None, 1))
            view = await reader.hear_until(lambda view: view is not None)

    assert again.iteration == opened.iteration
    assert view.finished


@pytest.mark.parametrize("state", ["empty", "missing"])
async def test_a_lost_journal_beside_definitions_is_refused_with_the_remedy(config, state):
    async with living(config) as (api, _):
        await register(api, Dataset.range(10))
    journal = folder_of(config) / "journal.db"
    journal.unlink()
    if state == "empty":
        journal.touch()

    with pytest.raises(JournalError, match=rf"journal\.db is {state}.* 1 definition.*delete"):
        await asyncio.to_thread(open_journal, folder_of(config), power=False)

    shutil.rmtree(folder_of(config) / "datasets")  # as behind a crash in the first moment
    async with living(config) as (_, opened):
        assert not opened.state.jobs


async def test_a_dataset_that_was_registered_and_not_used_is_known_after_a_restart(config):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(3))
        definition = await first.get_definition(dataset)

    async with living(config) as (second, journal):
        assert list(journal.state.datasets) == [dataset]
        assert await second.get_definition(dataset) == definition
        assert (await second.open_iteration(request(dataset))).iteration
    async with living(config) as (_, journal):
        assert list(journal.state.datasets) == [dataset]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_damaged_definition_is_requested_again_and_mended(config, restarts):
    definition = encode(Dataset.range(10).map(lambda x: x).node).to_bytes()
    async with AsyncExitStack() as stack:
        api, _ = await stack.enter_async_context(living(config))
        dataset = await api.register_dataset(definition, VERSIONS)
        await api.open_iteration(request(dataset))
        (file,) = (folder_of(config) / "datasets").iterdir()
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        file.write_bytes(damaged)
        if restarts:
            await stack.aclose()
            api, _ = await stack.enter_async_context(living(config))

        for ask in (api.get_definition(dataset), api.open_iteration(request(dataset))):
            with pytest.raises(UnknownDataset, match="register it again"):
                await ask
        await api.register_dataset(definition, VERSIONS)

        await api.open_iteration(request(dataset))
        assert await api.get_definition(dataset) == definition


async def test_a_restart_is_logged_in_one_line(config, caplog):
    async with dispatching(config) as first:
        await first.open_iteration(request(await register(first, Dataset.range(3))))
    with caplog.at_level(logging.INFO, "penstock.dispatcher"):
        async with dispatching(config):
            pass

    (line,) = [r.getMessage() for r in caplog.records if "going on" in r.getMessage()]
    assert "1 jobs" in line


async def test_a_dispatcher_says_whether_it_continues_the_work_of_one_before(config):
    async with dispatching(config) as first:
        assert not first.stats().restarted

    async with dispatching(config) as second:
        assert second.stats().restarted

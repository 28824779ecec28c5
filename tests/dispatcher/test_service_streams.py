"""The dispatcher's body, in place and behind a real port: workers and readers on their streams."""

import asyncio
import json
import socket
import time
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from importlib import metadata

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Refused, TransformError, Unavailable, UnknownIteration
from penstock.protocol.cache import CacheView, TrainerProgress, WhenFull
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Failure, IterationId, Mode, ReaderStatus
from penstock.runtime.versions import versions
from tests.dispatcher.running_dispatcher import (
    FAST,
    VERSIONS,
    Line,
    reader_stream,
    register,
    request,
    worker_stream,
)
from tests.openings import changed


async def open_pass(api, elements=3):
    """Open a pass over so many numbers."""
    return await api.open_iteration(request(await register(api, Dataset.range(elements))))


async def test_a_reader_of_an_unknown_iteration_hears_so(api):
    async with reader_stream(api, IterationId(17)) as reader:
        with pytest.raises(UnknownIteration, match="17"):
            await reader.hear()


async def test_a_reader_without_workers_hears_what_it_waits_for(api):
    opened = await open_pass(api)

    async with reader_stream(api, opened.iteration) as reader:
        view = await reader.hear()

    assert view.waiting_for == "a worker: none is registered at here:1"


@pytest.mark.quick(1)
async def test_a_silent_worker_is_lost_within_its_lease_and_readers_hear_it(api):
    opened = await open_pass(api)
    async with reader_stream(api, opened.iteration) as reader, worker_stream(api) as worker:
        await worker.hear_until(lambda order: order.tasks)
        await reader.hear_until(lambda view: any(t.worker for t in view.tasks.values()))
        began = time.monotonic()

        view = await reader.hear_until(lambda view: not any(t.worker for t in view.tasks.values()))

        assert {task.attempt for task in view.tasks.values()} == {1}
        assert 0.3 < time.monotonic() - began < 3


@pytest.mark.quick(1)
async def test_a_silent_reader_expires_and_the_worker_hears_it(api):
    opened = await open_pass(api)
    async with reader_stream(api, opened.iteration), worker_stream(api) as worker:

        async def beat():
            while True:
                worker.say(WorkerHeartbeat("w:1", 1, 0))
                await asyncio.sleep(0.1)

        beating = asyncio.create_task(beat())
        order = await worker.hear_until(
            lambda order: ReaderStatus.EXPIRED in order.readers.values()
        )
        beating.cancel()

    assert len(order.tasks) == 1


async def test_another_incarnation_of_a_worker_is_known_at_once_and_the_old_one_refused(api):
    async with worker_stream(api) as old:
        await old.hear()
        async with worker_stream(api, incarnation=2) as new:
            await new.hear()
            old.say(WorkerHeartbeat("w:1", 1, 0))

            refused = await old.hear_until(lambda order: isinstance(order, WorkerRefused))

            assert "newer process" in str(refused.failure.error())
            old.hang_up()
            with pytest.raises(StopAsyncIteration):
                await old.hear()


async def test_a_worker_that_opens_its_stream_anew_gets_everything_again(api):
    opened = await open_pass(api)
    async with reader_stream(api, opened.iteration), worker_stream(api) as first:
        order = await first.hear_until(lambda order: order.tasks)
        async with aclosing(Line(api.worker_control)) as second:
            second.say(WorkerHeartbeat("w:1", 1, order.revision, versions=VERSIONS))

            again = await second.hear()

            assert again.tasks == order.tasks
            with pytest.raises(Unavailable, match="newer stream"):
                await first.hear_until(lambda order: False)


async def test_a_worker_whose_stream_broke_gets_nothing_new(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    dataset = await register(api, Dataset.range(3))
    async with worker_stream(api, "w:2") as other:
        await other.hear()
        async with worker_stream(api, "w:1") as broken:
            await broken.hear()
        async with asyncio.timeout(5):
            while any(w["connected"] for w in await workers(api) if w["address"] == "w:1"):
                await asyncio.sleep(0.01)

        opened = await api.open_iteration(request(dataset, Mode.OFF))
        async with reader_stream(api, opened.iteration) as reader:
            view = await reader.hear_until(lambda view: view.tasks)

    assert [task.worker for task in view.tasks.values()] == ["w:2"]


async def workers(api):
    return json.loads(await api.status())["workers"]


async def test_only_the_workers_of_the_list_may_come(opening):
    api, _ = await opening(replace(FAST, worker_addresses=("host:%port%", "any", "other:7")))

    async with worker_stream(api, "host:99") as good, worker_stream(api, "any:1") as fair:
        assert isinstance(await good.hear(), Assignment)
        assert isinstance(await fair.hear(), Assignment)
    async with worker_stream(api, "other:8") as bad:
        refused = await bad.hear()
        bad.hang_up()

    assert isinstance(refused, WorkerRefused)
    assert "other:8" in str(refused.failure.error())


async def test_status_has_workers_jobs_tasks_and_the_account(api):
    dataset = await register(api, Dataset.range(10))
    opened = await api.open_iteration(request(dataset, job="j"))
    async with reader_stream(api, opened.iteration) as reader, worker_stream(api) as worker:
        order = await worker.hear_until(lambda order: order.tasks)
        (run,) = order.tasks
        progress = {run.task: AttemptProgress(1, 4, AckedSet(3), counts=ElementCounts(produced=4))}
        worker.say(WorkerHeartbeat("w:1", 1, order.revision, progress, stats=b'{"memory": 3}'))
        worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
        await worker.hear_until(lambda order: isinstance(order, SplitGrant))
        await reader.hear()

        stats = json.loads(await api.status())

    (known,) = stats["workers"]
    (iteration,) = stats["iterations"]
    assert known["address"] == "w:1"
    assert known["stats"] == {"memory": 3}
    assert (iteration["job"], iteration["repetition"], iteration["mode"]) == ("j", 1, "dynamic")
    account = {
        name: iteration["account"][name] for name in ("produced", "acked", "splits", "units")
    }
    assert account == {"produced": 4, "acked": 3, "splits": 2, "units": 2}
    assert iteration["tasks"][0]["worker"] == "w:1"
    assert iteration["readers"][0]["status"] == "live"
    assert stats["counts"]["split_requests"] == 1


async def test_streams_end_when_the_dispatcher_is_closed(opening):
    api, body = await opening()
    async with worker_stream(api) as worker:
        await worker.hear()

        body.close()

        with pytest.raises(Unavailable, match="stopping"):
            await worker.hear()


@pytest.mark.quick(1)
async def test_a_peer_that_does_not_listen_costs_no_memory(api):
    opened = await open_pass(api)
    async with reader_stream(api, opened.iteration) as reader:
        first = await reader.hear()
        for beat in range(2, 2000):
            reader.say(ReaderHeartbeat(opened.iteration, "r", first.reader, beat))
        view = await reader.hear_until(lambda view: view.seq == 1999)

    assert view.status is ReaderStatus.LIVE


async def test_a_closed_dispatcher_accepts_no_new_streams(opening):
    api, body = await opening()
    body.close()

    async with worker_stream(api) as worker:
        with pytest.raises(Unavailable, match="stopping"):
            await worker.hear()


async def test_user_code_that_failed_is_shown_and_what_was_produced_is_still_served(api):
    opened = await open_pass(api)
    async with reader_stream(api, opened.iteration) as reader, worker_stream(api) as worker:
        order = await worker.hear_until(lambda order: order.tasks)
        (run,) = order.tasks
        error = TransformError("map(f)", 2, "ValueError: no", "w:1")
        failed = AttemptProgress(1, 2, AckedSet(0), failure=Failure.of(error))
        worker.say(WorkerHeartbeat("w:1", 1, order.revision, {run.task: failed}))

        view = await reader.hear_until(lambda view: any(t.failure for t in view.tasks.values()))

    (task,) = view.tasks.values()
    assert task.worker == "w:1"
    assert str(task.failure.error()) == str(error)
    assert not view.finished


async def test_a_worker_is_drained_and_an_unknown_one_is_refused_with_the_known_ones(api):
    async with worker_stream(api) as worker:
        await worker.hear()

        drains = asyncio.create_task(api.drain("w:1"))
        order = await worker.hear_until(lambda order: order.drain)
        worker.say(WorkerHeartbeat("w:1", order.incarnation, order.revision, draining=True))
        await drains
        with pytest.raises(Refused, match=r"w:2.*w:1"):
            await api.drain("w:2")


async def test_a_worker_whose_address_refuses_connections_is_lost_before_its_lease_is_over(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        dataset = await register(api, Dataset.range(3))
        opened = await api.open_iteration(request(dataset))
        async with reader_stream(api, opened.iteration) as reader:
            async with worker_stream(api, address) as worker:
                await worker.hear_until(lambda order: order.tasks)
                worker.hang_up()

            view = await reader.hear_until(
                lambda view: view.tasks and not any(t.worker for t in view.tasks.values())
            )

    assert view.tasks
    assert not await workers(api)


async def test_a_worker_whose_stream_broke_but_that_answers_is_kept_for_its_lease(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with worker_stream(api, address) as worker:
            await worker.hear()
        (await asyncio.to_thread(listener.accept))[0].close()  # somebody looked
        async with asyncio.timeout(5):
            while any(w["connected"] for w in await workers(api)):
                await asyncio.sleep(0)

        assert [w["address"] for w in await workers(api)] == [address]


async def test_trainers_share_a_pass_and_each_is_told_of_its_own_end(api):
    dataset = await register(api, Dataset.range(10))
    shared = changed(request(dataset, job="j"), trainer="a", when_full="wait")
    opened = await api.open_iteration(shared)
    views, readers = {}, {}
    async with worker_stream(api) as worker, AsyncExitStack() as stack:
        for name in "ab":
            line = readers[name] = await stack.enter_async_context(
                aclosing(Line(api.reader_control))
            )
            line.say(ReaderHeartbeat(opened.iteration, name, None, 1, trainer=name))
            views[name] = await line.hear_until(lambda view: view.reader)
        order = await worker.hear_until(lambda order: order.tasks)
        (run,) = order.tasks
        trainers = {"a": TrainerProgress(AckedSet(10)), "b": TrainerProgress(AckedSet(7), 4, 1)}
        made = AttemptProgress(1, 10, AckedSet(7), ended=True, trainers=trainers)
        worker.say(WorkerHeartbeat("w:1", 1, order.revision, {run.task: made}))
        last = await readers["a"].hear_until(lambda view: view.finished)
        ids = {name: views[name].reader for name in "ab"}
        readers["b"].say(ReaderHeartbeat(opened.iteration, "b", ids["b"], 2, trainer="b"))
        reads_on = await readers["b"].hear_until(lambda view: view.seq == 2)

    assert run.cached.when_full is WhenFull.WAIT
    assert run.cached.readers[ids["a"]] == "a"
    assert (last.tasks, last.cache) == ({}, CacheView())
    assert (list(reads_on.tasks), reads_on.finished) == ([run.task], False)
    assert reads_on.cache == CacheView(4, 1)


async def test_status_needs_no_file_that_was_not_read_before(opening, monkeypatch):
    def no_descriptors(name):
        raise metadata.PackageNotFoundError(name)

    versions.cache_clear()
    api, _ = await opening()
    monkeypatch.setattr(metadata, "version", no_descriptors)

    assert json.loads(await api.status())["versions"]["penstock"]

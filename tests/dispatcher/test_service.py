"""The dispatcher's body, in place and behind a real port: the same tests for both."""

import asyncio
import json
import socket
import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from penstock import Dataset
from penstock.definition import encode
from penstock.errors import (
    DatasetError,
    DefinitionError,
    JobMismatch,
    MissingFile,
    NotAvailableYet,
    PenstockError,
    Refused,
    TransformError,
    Unavailable,
    UnknownDataset,
    UnknownIteration,
    VersionMismatch,
)
from penstock.messages import (
    PROTOCOL,
    Assignment,
    Codec,
    Failure,
    Mode,
    OpenRequest,
    Progress,
    ReaderBeat,
    SplitGrant,
    SplitRequest,
    Versions,
    Work,
    WorkerBeat,
    WorkerRefused,
)
from penstock.numbers import IterationId, Standing, Taken, WorkerId
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from penstock.wire.line import connect, listening
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import dispatching

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
FAST = DispatcherConfig(
    worker_timeout=0.5, heartbeat_interval=0.1, client_timeout=0.6, refresh_interval=0.1
)


@asynccontextmanager
async def ticking(config):
    async with dispatching(config) as dispatcher:
        dispatcher.address = "here:1"
        ticks = asyncio.create_task(dispatcher.tick_forever())
        try:
            yield dispatcher
        finally:
            ticks.cancel()
            await asyncio.wait({ticks})


@asynccontextmanager
async def near(config):
    """A dispatcher in this very process, with no wire at all."""
    async with ticking(config) as dispatcher:
        yield dispatcher, dispatcher


@asynccontextmanager
async def far(config):
    """The same dispatcher behind a real port."""
    async with ticking(config) as dispatcher:
        handlers = dispatcher_handlers(dispatcher)
        async with (
            listening(handlers, host="127.0.0.1", port=0, drain=0.2) as port,
            connect(f"127.0.0.1:{port}") as channel,
        ):
            yield DispatcherClient(channel), dispatcher


@pytest.fixture(params=["near", "far", "durable"])
async def opening(request, tmp_path):
    """Opens dispatchers: ``await opening(config)`` returns one, near or far, and its body."""
    place = far if request.param == "far" else near
    async with AsyncExitStack() as stack:

        async def enter(config=FAST):
            if request.param == "durable":
                config = replace(config, work_dir=str(tmp_path / "work"))
            return await stack.enter_async_context(place(config))

        yield enter


@pytest.fixture
async def api(opening):
    dispatcher, _ = await opening()
    return dispatcher


class Line:
    """One end of a control stream."""

    def __init__(self, method):
        self._out, self._in = asyncio.Queue(), asyncio.Queue()
        self._reading = asyncio.create_task(self._read(method))

    async def _messages(self):
        while (message := await self._out.get()) is not None:
            yield message

    async def _read(self, method):
        try:
            async with aclosing(method(self._messages())) as heard:
                async for message in heard:
                    self._in.put_nowait(message)
            self._in.put_nowait(StopAsyncIteration())
        except PenstockError as exc:
            self._in.put_nowait(exc)

    def say(self, message):
        self._out.put_nowait(message)

    async def hear(self, seconds=5.0):
        heard = await asyncio.wait_for(self._in.get(), seconds)
        if isinstance(heard, Exception):
            raise heard
        return heard

    async def hear_until(self, wanted, seconds=5.0):
        async with asyncio.timeout(seconds):
            while not wanted(heard := await self.hear()):
                pass
            return heard

    def hang_up(self):
        self._out.put_nowait(None)

    async def aclose(self):
        self._reading.cancel()
        await asyncio.wait({self._reading})


@asynccontextmanager
async def worker_line(api, worker="w:1", incarnation=1):
    async with aclosing(Line(api.worker_control)) as line:
        line.say(WorkerBeat(WorkerId(worker), incarnation, -1, versions=VERSIONS))
        yield line


@asynccontextmanager
async def reader_line(api, iteration, token="r"):
    async with aclosing(Line(api.reader_control)) as line:
        line.say(ReaderBeat(iteration, token, None, 1))
        yield line


async def register(api, dataset):
    return await api.register_dataset(encode(dataset.node).to_bytes(), VERSIONS)


def request(dataset, mode=Mode.DYNAMIC, job=None, repetition=1):
    return OpenRequest(VERSIONS, dataset, mode, job, repetition, Codec.NONE)


async def test_a_pass_from_registration_to_its_end(api):
    dataset = await register(api, Dataset.range(10))
    async with worker_line(api) as worker:
        first = await worker.hear()
        opened = await api.open_iteration(request(dataset))
        async with reader_line(api, opened.iteration) as reader:
            order = await worker.hear_until(lambda order: order.runs)
            (run,) = order.runs
            view = await reader.hear_until(lambda view: view.tasks)
            position = run.logs[0].stop
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, position))
            grant = await worker.hear_until(lambda order: isinstance(order, SplitGrant))
            done = Progress(1, 10, Taken(10), done=True)
            worker.say(WorkerBeat("w:1", 1, order.as_of, {run.task: done}))
            last = await reader.hear_until(lambda view: view.finished)
            released = await worker.hear_until(lambda order: isinstance(order, Assignment))

    assert first.runs == ()
    assert (run.dataset, run.iteration, run.attempt) == (dataset, opened.iteration, 1)
    assert view.standing is Standing.LIVE
    assert view.beat == 1
    assert view.tasks[run.task].worker == "w:1"
    assert grant.position == position
    assert grant.splits[0].start == run.logs[0].splits[-1].stop
    assert last.tasks == {}
    assert released.runs == ()


async def test_a_dataset_is_registered_once_and_can_be_fetched(api):
    definition = encode(Dataset.range(3).node).to_bytes()

    first = await api.register_dataset(definition, VERSIONS)
    second = await api.register_dataset(definition, VERSIONS)

    assert first == second
    assert await api.get_definition(first) == definition
    with pytest.raises(UnknownDataset, match="nobody"):
        await api.get_definition("nobody")
    with pytest.raises(DefinitionError):
        await api.register_dataset(b"rubbish", VERSIONS)


async def test_another_protocol_is_refused(api):
    old = replace(VERSIONS, protocol=PROTOCOL - 1)

    with pytest.raises(VersionMismatch, match="upgrade the client"):
        await api.register_dataset(encode(Dataset.range(3).node).to_bytes(), old)


def made_by(python, function=lambda x: x + 1):
    return replace(encode(Dataset.range(3).map(function).node), python=python).to_bytes()


def of(python):
    return replace(VERSIONS, python=f"{python}.1")


async def test_a_pipeline_that_no_worker_can_load_is_refused_with_both_versions(api):
    dataset = await api.register_dataset(made_by("3.13"), of("3.13"))
    async with worker_line(api) as worker:
        await worker.hear()

        with pytest.raises(VersionMismatch, match=r"made by Python 3\.13; workers have 3\.11: "):
            await api.open_iteration(replace(request(dataset), versions=of("3.13")))


async def test_a_pipeline_without_functions_is_for_every_python(api):
    dataset = await register(api, Dataset.range(3))
    async with worker_line(api) as worker:
        await worker.hear()

        assert await api.open_iteration(replace(request(dataset), versions=of("3.13")))


async def test_registering_from_another_python_adds_a_variant(api):
    dataset = await api.register_dataset(made_by("3.13"), of("3.13"))
    async with worker_line(api) as worker:
        await worker.hear()

        with pytest.raises(UnknownDataset, match=r"made by Python 3\.13 and not 3\.11.*again"):
            await api.open_iteration(request(dataset))
        assert await api.register_dataset(made_by("3.11"), of("3.11")) == dataset
        opened = await api.open_iteration(request(dataset))
        again = await api.open_iteration(replace(request(dataset), versions=of("3.13")))

    assert opened.iteration != again.iteration  # a job has no name here: each has its own
    assert await api.get_definition(dataset, "3.13") == made_by("3.13")
    assert await api.get_definition(dataset, "3.11") == made_by("3.11")


async def test_a_job_with_other_parameters_is_refused_with_both_values(api):
    dataset = await register(api, Dataset.range(3))
    await api.open_iteration(request(dataset, job="j"))

    with pytest.raises(JobMismatch, match="mode is 'dynamic', not 'off'"):
        await api.open_iteration(request(dataset, Mode.OFF, job="j"))


async def test_what_cannot_be_split_is_refused_under_dynamic_sharding(api):
    dataset = await register(api, Dataset.from_generator(lambda: iter([1])))

    with pytest.raises(DatasetError, match="from_generator"):
        await api.open_iteration(request(dataset))
    assert (await api.open_iteration(request(dataset, Mode.OFF))).iteration


async def test_files_are_listed_when_an_iteration_is_opened(api, tmp_path):
    dataset = await register(api, Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False))
    with pytest.raises(MissingFile, match=r"\*\.txt"):
        await api.open_iteration(request(dataset, job="j"))

    for name in ("b.txt", "a.txt"):
        (tmp_path / name).touch()
    opened = await api.open_iteration(request(dataset, job="j"))
    async with worker_line(api) as worker, reader_line(api, opened.iteration):
        order = await worker.hear_until(lambda order: order.runs)

    (log,) = order.runs[0].logs
    assert log.splits[0].names == (str(tmp_path / "a.txt"),)


async def test_a_reader_of_an_unknown_iteration_hears_so(api):
    async with reader_line(api, IterationId(17)) as reader:
        with pytest.raises(UnknownIteration, match="17"):
            await reader.hear()


async def test_a_reader_without_workers_hears_what_it_waits_for(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))

    async with reader_line(api, opened.iteration) as reader:
        view = await reader.hear()

    assert view.waiting_for == "a worker: none is registered at here:1"


async def test_a_silent_worker_is_lost_within_its_lease_and_readers_hear_it(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))
    async with reader_line(api, opened.iteration) as reader, worker_line(api) as worker:
        await worker.hear_until(lambda order: order.runs)
        await reader.hear_until(lambda view: any(t.worker for t in view.tasks.values()))
        began = time.monotonic()

        view = await reader.hear_until(lambda view: not any(t.worker for t in view.tasks.values()))

        assert {task.attempt for task in view.tasks.values()} == {1}
        assert 0.3 < time.monotonic() - began < 3


async def test_a_silent_reader_is_given_up_and_the_worker_hears_it(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))
    async with reader_line(api, opened.iteration), worker_line(api) as worker:

        async def beat():
            while True:
                worker.say(WorkerBeat("w:1", 1, 0))
                await asyncio.sleep(0.1)

        beating = asyncio.create_task(beat())
        order = await worker.hear_until(lambda order: Standing.GONE in order.readers.values())
        beating.cancel()

    assert len(order.runs) == 1


async def test_another_life_of_a_worker_is_known_at_once_and_the_old_one_refused(api):
    async with worker_line(api) as old:
        await old.hear()
        async with worker_line(api, incarnation=2) as new:
            await new.hear()
            old.say(WorkerBeat("w:1", 1, 0))

            refused = await old.hear_until(lambda order: isinstance(order, WorkerRefused))

            assert "newer process" in str(refused.failure.error())
            old.hang_up()
            with pytest.raises(StopAsyncIteration):
                await old.hear()


async def test_a_worker_that_opens_its_line_anew_is_told_everything_again(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))
    async with reader_line(api, opened.iteration), worker_line(api) as first:
        order = await first.hear_until(lambda order: order.runs)
        async with aclosing(Line(api.worker_control)) as second:
            second.say(WorkerBeat("w:1", 1, order.as_of, versions=VERSIONS))

            again = await second.hear()

            assert again.runs == order.runs
            with pytest.raises(Unavailable, match="newer stream"):
                await first.hear_until(lambda order: False)


async def test_a_worker_whose_line_broke_gets_nothing_new(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    dataset = await register(api, Dataset.range(3))
    async with worker_line(api, "w:2") as other:
        await other.hear()
        async with worker_line(api, "w:1") as broken:
            await broken.hear()
        async with asyncio.timeout(5):
            while any(w["connected"] for w in await workers(api) if w["address"] == "w:1"):
                await asyncio.sleep(0.01)

        opened = await api.open_iteration(request(dataset, Mode.OFF))
        async with reader_line(api, opened.iteration) as reader:
            view = await reader.hear_until(lambda view: view.tasks)

    assert [task.worker for task in view.tasks.values()] == ["w:2"]


async def workers(api):
    return json.loads(await api.status())["workers"]


async def test_only_the_workers_of_the_list_may_come(opening):
    api, _ = await opening(replace(FAST, worker_addresses=("host:%port%", "any", "other:7")))

    async with worker_line(api, "host:99") as good, worker_line(api, "any:1") as fair:
        assert isinstance(await good.hear(), Assignment)
        assert isinstance(await fair.hear(), Assignment)
    async with worker_line(api, "other:8") as bad:
        refused = await bad.hear()
        bad.hang_up()

    assert isinstance(refused, WorkerRefused)
    assert "other:8" in str(refused.failure.error())


async def test_status_tells_of_workers_jobs_tasks_and_the_account(api):
    dataset = await register(api, Dataset.range(10))
    opened = await api.open_iteration(request(dataset, job="j"))
    async with reader_line(api, opened.iteration) as reader, worker_line(api) as worker:
        order = await worker.hear_until(lambda order: order.runs)
        (run,) = order.runs
        progress = {run.task: Progress(1, 4, Taken(3), work=Work(made=4))}
        worker.say(WorkerBeat("w:1", 1, order.as_of, progress, stats=b'{"memory": 3}'))
        worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
        await worker.hear_until(lambda order: isinstance(order, SplitGrant))
        await reader.hear()

        stats = json.loads(await api.status())

    (known,) = stats["workers"]
    (iteration,) = stats["iterations"]
    assert known["address"] == "w:1"
    assert known["stats"] == {"memory": 3}
    assert (iteration["job"], iteration["repetition"], iteration["mode"]) == ("j", 1, "dynamic")
    account = {name: iteration["account"][name] for name in ("made", "taken", "splits", "units")}
    assert account == {"made": 4, "taken": 3, "splits": 2, "units": 2}
    assert iteration["tasks"][0]["worker"] == "w:1"
    assert iteration["readers"][0]["standing"] == "live"
    assert stats["counts"]["split_requests"] == 1


async def test_streams_end_when_the_dispatcher_is_closed(opening):
    api, body = await opening()
    async with worker_line(api) as worker:
        await worker.hear()

        body.close()

        with pytest.raises(Unavailable, match="stopping"):
            await worker.hear()


async def test_a_peer_that_does_not_listen_costs_no_memory(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))
    async with reader_line(api, opened.iteration) as reader:
        first = await reader.hear()
        for beat in range(2, 2000):
            reader.say(ReaderBeat(opened.iteration, "r", first.reader, beat))
        view = await reader.hear_until(lambda view: view.beat == 1999)

    assert view.standing is Standing.LIVE


async def test_a_call_that_nobody_waits_for_any_more_is_forgotten(opening, tmp_path):
    api, body = await opening()
    dataset = await register(api, Dataset.list_files(str(tmp_path / "*")))
    calls = [asyncio.create_task(api.open_iteration(request(dataset))) for _ in range(5)]

    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    async with asyncio.timeout(5):
        while body._calls:
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    "changes, kind, words",
    [
        ({"num_consumers": 2}, NotAvailableYet, "num_consumers"),
        ({"trainer": "t"}, NotAvailableYet, "cross_trainer_cache"),
        ({"ordered": True}, NotAvailableYet, "ordered"),
        ({"job_name": ""}, Refused, "job_name"),
        ({"repetition": -1}, Refused, "-1"),
    ],
)
async def test_what_cannot_be_opened_is_said(api, changes, kind, words):
    dataset = await register(api, Dataset.range(3))

    with pytest.raises(kind, match=words):
        await api.open_iteration(replace(request(dataset), **changes))


async def test_storage_that_cannot_be_listed_is_named(api):
    dataset = await register(api, Dataset.list_files("nosuchprotocol://bucket/*"))

    with pytest.raises(DatasetError, match="nosuchprotocol"):
        await api.open_iteration(request(dataset))


async def test_a_closed_dispatcher_takes_no_new_lines(opening):
    api, body = await opening()
    body.close()

    async with worker_line(api) as worker:
        with pytest.raises(Unavailable, match="stopping"):
            await worker.hear()


async def test_user_code_that_failed_is_shown_and_what_was_made_is_still_served(api):
    dataset = await register(api, Dataset.range(3))
    opened = await api.open_iteration(request(dataset))
    async with reader_line(api, opened.iteration) as reader, worker_line(api) as worker:
        order = await worker.hear_until(lambda order: order.runs)
        (run,) = order.runs
        error = TransformError("map(f)", 2, "ValueError: no", "w:1")
        failed = Progress(1, 2, Taken(0), failure=Failure.of(error))
        worker.say(WorkerBeat("w:1", 1, order.as_of, {run.task: failed}))

        view = await reader.hear_until(lambda view: any(t.failure for t in view.tasks.values()))

    (task,) = view.tasks.values()
    assert task.worker == "w:1"
    assert str(task.failure.error()) == str(error)
    assert not view.finished


async def test_a_worker_is_told_to_drain_and_an_unknown_one_is_refused_with_those_that_are(api):
    async with worker_line(api) as worker:
        await worker.hear()

        drains = asyncio.create_task(api.drain("w:1"))
        order = await worker.hear_until(lambda order: order.drain)
        worker.say(WorkerBeat("w:1", order.incarnation, order.as_of, draining=True))
        await drains
        with pytest.raises(Refused, match=r"w:2.*w:1"):
            await api.drain("w:2")


async def test_a_worker_at_whose_address_nobody_answers_is_lost_before_its_lease_is_over(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        dataset = await register(api, Dataset.range(3))
        opened = await api.open_iteration(request(dataset))
        async with reader_line(api, opened.iteration) as reader:
            async with worker_line(api, address) as worker:
                await worker.hear_until(lambda order: order.runs)
                worker.hang_up()

            view = await reader.hear_until(
                lambda view: view.tasks and not any(t.worker for t in view.tasks.values())
            )

    assert view.tasks
    assert not await workers(api)


async def test_a_worker_whose_line_broke_but_that_answers_is_kept_for_its_lease(opening):
    api, _ = await opening(replace(FAST, worker_timeout=30.0))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with worker_line(api, address) as worker:
            await worker.hear()
        (await asyncio.to_thread(listener.accept))[0].close()  # somebody looked
        async with asyncio.timeout(5):
            while any(w["connected"] for w in await workers(api)):
                await asyncio.sleep(0)

        assert [w["address"] for w in await workers(api)] == [address]

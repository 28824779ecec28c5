"""The dispatcher's body, in place and behind a real port: datasets, jobs and what is refused."""

import asyncio
from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import (
    DatasetError,
    DefinitionError,
    JobMismatch,
    MissingFile,
    Refused,
    StateError,
    UnknownDataset,
    VersionMismatch,
)
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
)
from penstock.protocol.definition import Definition
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, DatasetId, Mode, ReaderStatus
from tests.dispatcher.running_dispatcher import (
    VERSIONS,
    reader_stream,
    register,
    request,
    worker_stream,
)
from tests.openings import changed


async def test_a_pass_from_registration_to_its_end(api):
    dataset = await register(api, Dataset.range(10))
    async with worker_stream(api) as worker:
        first = await worker.hear()
        opened = await api.open_iteration(request(dataset))
        async with reader_stream(api, opened.iteration) as reader:
            order = await worker.hear_until(lambda order: order.tasks)
            (run,) = order.tasks
            view = await reader.hear_until(lambda view: view.tasks)
            position = run.logs[0].stop
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, position))
            grant = await worker.hear_until(lambda order: isinstance(order, SplitGrant))
            done = AttemptProgress(1, 10, AckedSet(10), done=True)
            worker.say(WorkerHeartbeat("w:1", 1, order.revision, {run.task: done}))
            last = await reader.hear_until(lambda view: view.finished)
            released = await worker.hear_until(lambda order: isinstance(order, Assignment))

    assert first.tasks == ()
    assert (run.dataset, run.iteration, run.attempt) == (dataset, opened.iteration, 1)
    assert view.status is ReaderStatus.LIVE
    assert view.seq == 1
    assert view.tasks[run.task].worker == "w:1"
    assert grant.position == position
    assert grant.splits[0].start == run.logs[0].splits[-1].stop
    assert last.tasks == {}
    assert released.tasks == ()


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


HERE, OTHER = VERSIONS.minor, "3.10"


def made_by(python, function=lambda x: x + 1):
    return replace(encode(Dataset.range(3).map(function).node), python=python).to_bytes()


def of(python):
    return replace(VERSIONS, python=f"{python}.1")


async def test_a_pipeline_that_no_worker_can_load_is_refused_with_both_versions(api):
    dataset = await api.register_dataset(made_by(OTHER), of(OTHER))
    async with worker_stream(api) as worker:
        await worker.hear()

        with pytest.raises(VersionMismatch, match=f"made by Python {OTHER}; workers have {HERE}: "):
            await api.open_iteration(replace(request(dataset), versions=of(OTHER)))


async def test_to_register_what_no_worker_can_load_is_refused_with_both_versions(api):
    async with worker_stream(api) as worker:
        await worker.hear()

        told = f"made by Python {OTHER}; workers have {HERE}: .*Start a worker with {OTHER}, or"
        with pytest.raises(VersionMismatch, match=told):
            await api.register_dataset(made_by(OTHER), of(OTHER))
        with pytest.raises(UnknownDataset):
            await api.get_definition(DatasetId(Definition.from_bytes(made_by(OTHER)).fingerprint))
        dataset = await api.register_dataset(made_by(HERE), of(HERE))
        assert await api.register_dataset(made_by(OTHER), of(OTHER)) == dataset


async def test_a_pipeline_without_functions_is_for_every_python(api):
    dataset = await register(api, Dataset.range(3))
    async with worker_stream(api) as worker:
        await worker.hear()

        assert await api.open_iteration(replace(request(dataset), versions=of(OTHER)))


async def test_registering_from_another_python_adds_a_variant(api):
    dataset = await api.register_dataset(made_by(OTHER), of(OTHER))
    async with worker_stream(api) as worker:
        await worker.hear()

        with pytest.raises(UnknownDataset, match=f"made by Python {OTHER} and not {HERE}.*again"):
            await api.open_iteration(request(dataset))
        assert await api.register_dataset(made_by(HERE), of(HERE)) == dataset
        opened = await api.open_iteration(request(dataset))
        again = await api.open_iteration(replace(request(dataset), versions=of(OTHER)))

    assert opened.iteration != again.iteration  # a job has no name here: each has its own
    assert await api.get_definition(dataset, OTHER) == made_by(OTHER)
    assert await api.get_definition(dataset, HERE) == made_by(HERE)


async def test_a_job_with_other_parameters_is_refused_with_both_values(api):
    dataset = await register(api, Dataset.range(3))
    await api.open_iteration(request(dataset, job="j"))

    with pytest.raises(JobMismatch, match="processing_mode is 'dynamic', not 'off'"):
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
    async with worker_stream(api) as worker, reader_stream(api, opened.iteration):
        order = await worker.hear_until(lambda order: order.tasks)

    (log,) = order.tasks[0].logs
    assert log.splits[0].names == (str(tmp_path / "a.txt"),)


async def test_a_call_without_a_waiter_is_forgotten(opening, tmp_path):
    api, body = await opening()
    dataset = await register(api, Dataset.list_files(str(tmp_path / "*")))
    calls = [asyncio.create_task(api.open_iteration(request(dataset))) for _ in range(5)]

    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    async with asyncio.timeout(5):
        while body._calls:
            await asyncio.sleep(0)


@pytest.mark.quick(36)
@pytest.mark.parametrize(
    "changes, kind, words",
    [
        ({"num_consumers": 2}, DatasetError, "job_name"),
        ({"num_consumers": 0, "job_name": "j"}, DatasetError, "from 1 to"),
        ({"num_consumers": 2, "job_name": "j", "patience": -1}, DatasetError, "patience"),
        ({"remainder": "pad"}, DatasetError, "num_consumers"),
        ({"patience": 3}, DatasetError, "num_consumers"),
        ({"trainer": "t"}, DatasetError, "job_name"),
        ({"trainer": "", "job_name": "j"}, DatasetError, "must have a name"),
        ({"trainer": "t", "job_name": "j", "when_full": "x"}, DatasetError, "skip, wait"),
        ({"trainer": "t", "job_name": "j", "num_consumers": 2}, DatasetError, "num_consumers"),
        ({"trainer": "t", "job_name": "j", "restore": b"{}"}, StateError, "cannot be saved"),
        ({"when_full": "wait"}, DatasetError, "cross_trainer_cache"),
        (
            {"ordered": True, "mode": Mode.OFF},
            DatasetError,
            "processing mode .* do not go together",
        ),
        (
            {"ordered": True, "trainer": "t", "job_name": "j"},
            DatasetError,
            "cross_trainer_cache do not go together",
        ),
        ({"job_name": ""}, Refused, "job_name"),
        ({"repetition": -1}, Refused, "-1"),
    ],
)
async def test_what_cannot_be_opened_is_refused(api, changes, kind, words):
    dataset = await register(api, Dataset.range(3))

    with pytest.raises(kind, match=words):
        await api.open_iteration(changed(request(dataset), **changes))


async def test_storage_that_cannot_be_listed_is_named(api):
    dataset = await register(api, Dataset.list_files("nosuchprotocol://bucket/*"))

    with pytest.raises(DatasetError, match="nosuchprotocol"):
        await api.open_iteration(request(dataset))

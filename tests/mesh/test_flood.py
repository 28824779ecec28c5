"""Many openings at once: some are told to wait, all are served, and who reads goes on reading."""

import asyncio

import pytest

from penstock import Dataset
from penstock.definition import encode
from penstock.errors import Overloaded
from penstock.protocol.types import Codec, Mode
from penstock.reader.session.line import call_dispatcher
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer
from tests.openings import opening

VERSIONS = versions()


def _request(fingerprint, job):
    return opening(VERSIONS, fingerprint, Mode.DYNAMIC, job, 0, Codec.NONE)


async def _flood(address, definition, jobs):
    """Open *jobs* jobs at once; return how often one was told to wait, and the replies."""
    told = []

    async def register(dispatcher):
        return await dispatcher.register_dataset(definition, VERSIONS)

    fingerprint = await call_dispatcher(address, 30.0, register)

    async def opened(number):
        async def call(dispatcher):
            try:
                return await dispatcher.open_iteration(_request(fingerprint, f"job{number}"))
            except Overloaded as exc:
                told.append(exc)
                raise

        return await call_dispatcher(address, 60.0, call)

    return told, await asyncio.gather(*map(opened, range(jobs)))


@pytest.mark.slow
def test_all_jobs_of_a_flood_are_opened_and_a_reader_reads_on(tmp_path):
    config = DispatcherConfig(work_dir=str(tmp_path), limits={"max_openings": 1})
    definition = encode(Dataset.range(10).node).to_bytes()
    with DispatchServer(config) as dispatcher:
        address = dispatcher.target.removeprefix("grpc://")
        with WorkerServer(WorkerConfig(dispatcher_address=address)):
            elements = iter(Dataset.range(100_000).distribute("distributed_epoch", address))
            first = next(elements)
            told, opened = asyncio.run(_flood(address, definition, 100))
            rest = list(elements)

    assert len({reply.iteration for reply in opened}) == 100
    assert told
    assert all(exc.retry_after > 0 and "max_openings" in str(exc) for exc in told)
    assert sorted([first, *rest]) == list(range(100_000))


async def _refused_soon(address, definition):
    async with connect(address) as channel:
        client = DispatcherClient(channel)
        fingerprint = await client.register_dataset(definition, VERSIONS)
        await client.open_iteration(_request(fingerprint, "one"))
        try:
            await client.open_iteration(_request(fingerprint, "two"))
        except Overloaded as exc:
            return str(exc)
    return ""


def test_a_job_beyond_the_bound_is_refused_at_once_by_the_name_of_the_setting():
    definition = encode(Dataset.range(10).node).to_bytes()
    with DispatchServer(DispatcherConfig(limits={"max_jobs": 1})) as dispatcher:
        said = asyncio.run(_refused_soon(dispatcher.target.removeprefix("grpc://"), definition))

    assert "max_jobs" in said

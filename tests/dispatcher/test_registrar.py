"""Registering under ids, near and far, with a journal and without."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import DatasetError, Refused, UnknownDataset
from penstock.protocol.calls import RegisteredDataset, Registration
from penstock.protocol.definition import Definition, Pickled
from penstock.protocol.types import Codec
from penstock_dispatcher.work_dir import definition_store
from tests.dispatcher.durable_dispatcher import living
from tests.dispatcher.running_dispatcher import FAST, VERSIONS, register, request
from tests.openings import changed

PIPELINE = Dataset.range(10).map(lambda x: x + 1)
DEFINITION = encode(PIPELINE.node)
OTHER = encode(Dataset.range(3).node)
CORPUS = Registration("corpus", Codec.LZ4, b"spec")


async def registered(api, definition=DEFINITION, registration=CORPUS):
    return await api.register_dataset(definition.to_bytes(), VERSIONS, registration)


async def test_what_is_registered_is_found_without_its_code(api):
    dataset = await registered(api)

    found = await api.find_dataset("corpus")

    definition = Definition.from_bytes(found.definition)
    assert replace(found, definition=b"") == RegisteredDataset(
        "corpus", dataset, Codec.LZ4, b"spec"
    )
    assert definition.pickled == Pickled()
    assert definition.outline == DEFINITION.outline
    assert (definition.cardinality, definition.providers) == (10, DEFINITION.providers)


async def test_without_an_id_it_is_found_by_its_fingerprint(api):
    nameless = Registration("", Codec.AUTO)

    first = await registered(api, registration=nameless)
    second = await registered(api, registration=nameless)

    assert first == second == (await api.find_dataset(first)).dataset_id


async def test_definitions_are_stored_once_whatever_they_are_called(opening):
    api, body = await opening()
    for name in ("a", "b", ""):
        await registered(api, registration=Registration(name, Codec.AUTO))
    await register(api, PIPELINE)

    status = json.loads(await body.status())
    assert status["datasets"] == 1
    assert {one["dataset"] for one in status["registrations"]} == {DEFINITION.fingerprint}
    assert [one["dataset_id"] for one in status["registrations"]] == [
        "a",
        "b",
        DEFINITION.fingerprint,
    ]


async def test_what_distribute_registers_has_no_id(api):
    dataset = await register(api, PIPELINE)

    with pytest.raises(UnknownDataset, match="register_dataset"):
        await api.find_dataset(dataset)


async def test_an_id_for_something_else_is_refused_by_fingerprint(api):
    await registered(api)

    with pytest.raises(DatasetError) as caught:
        await registered(api, OTHER)
    for part in ("'corpus'", DEFINITION.fingerprint, OTHER.fingerprint, "range → map"):
        assert part in str(caught.value)
    with pytest.raises(DatasetError, match="'lz4', not 'none'"):
        await registered(api, registration=Registration("corpus", Codec.NONE))


async def test_ids_that_are_none_are_refused(api):
    with pytest.raises(Refused, match="dataset_id"):
        await registered(api, registration=Registration("a/b", Codec.NONE))
    with pytest.raises(Refused, match="dataset_id"):
        await api.find_dataset("")
    with pytest.raises(UnknownDataset, match="'nobody' at .*register_dataset first"):
        await api.find_dataset("nobody")


async def test_jobs_read_by_an_id_from_any_python(opening):
    api, body = await opening()
    dataset = await registered(api)
    by_id = changed(request(dataset, job="dataset_id=corpus/j"), dataset_id="corpus")
    other = replace(VERSIONS, python="3.99.1")

    first = await api.open_iteration(by_id)
    second = await api.open_iteration(replace(by_id, versions=other))

    assert first.iteration == second.iteration
    (one,) = json.loads(await body.status())["registrations"]
    assert one["jobs"] == ["dataset_id=corpus/j"]
    assert (one["compression"], one["explicit"]) == ("lz4", True)


async def test_reading_by_an_id_needs_that_it_stands_for_the_dataset(api):
    dataset = await registered(api)
    other = await register(api, Dataset.range(3))

    with pytest.raises(UnknownDataset, match="'nobody'"):
        await api.open_iteration(changed(request(dataset), dataset_id="nobody"))
    with pytest.raises(DatasetError, match="Call from_dataset_id again"):
        await api.open_iteration(changed(request(other), dataset_id="corpus"))


async def test_ids_outlast_a_restart(config):
    async with living(config) as (api, _):
        dataset = await registered(api)
        before = await api.find_dataset("corpus")

    async with living(config) as (api, journal):
        assert journal.state.registrations["corpus"].explicit
        assert await api.find_dataset("corpus") == before
        opened = await api.open_iteration(changed(request(dataset), dataset_id="corpus"))
        assert opened.iteration
        with pytest.raises(DatasetError, match="forever"):
            await registered(api, OTHER)


async def test_what_the_core_forgot_leaves_the_store(opening, monkeypatch):
    monkeypatch.setattr("penstock_dispatcher.work_dir.definition_store.KEPT", 0.0)
    quick = replace(FAST, dataset_gc_timeout=0.05, job_gc_check_interval=0.05)
    api, body = await opening(quick)
    forgotten = await registered(api, OTHER, Registration("", Codec.NONE))
    kept = await registered(api)

    async with asyncio.timeout(10):
        while forgotten in body._core.state.datasets:
            await asyncio.sleep(0.02)
        await body._sweep()
        while body._registrar._used is None:
            await asyncio.sleep(0.02)
        await body._sweep()

    assert await api.get_definition(kept)
    with pytest.raises(UnknownDataset):
        await api.get_definition(forgotten)
    with pytest.raises(UnknownDataset, match="dataset_gc_timeout"):
        await api.find_dataset(forgotten)


async def test_what_is_written_for_a_caller_that_hung_up_is_counted_and_forgotten(
    config, monkeypatch
):
    begun, gate, real = threading.Event(), threading.Event(), definition_store.write_whole

    def slow(*args):
        begun.set()
        assert gate.wait(20)
        real(*args)

    monkeypatch.setattr(definition_store, "write_whole", slow)
    async with living(config) as (body, _):
        asking = asyncio.ensure_future(registered(body))
        assert await asyncio.to_thread(begun.wait, 20)
        asking.cancel()
        gate.set()
        await asyncio.wait({asking})
        assert asking.cancelled()
        async with asyncio.timeout(20):
            while body._registrar._keeping or not list(body._registrar._store.sizes()):
                await asyncio.sleep(0.001)

        ((_, _, nbytes),) = body._registrar._store.sizes()
        assert body._registrar._kept.total == len(DEFINITION.to_bytes()) <= nbytes

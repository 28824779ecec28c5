"""The definitions of the runs: fetched once, kept while they are used."""

import asyncio

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import Unavailable, UnknownDataset
from penstock_worker import definition_cache
from penstock_worker.definition_cache import CACHED, CachedDefinition, DefinitionCache


def definition(n):
    return encode(Dataset.range(n).node).to_bytes()


class Definitions:
    """A dispatcher that has definitions, and counts the requests."""

    def __init__(self):
        self.asked = []
        self.absent = 0

    async def get_definition(self, dataset, python=""):
        self.asked.append(dataset)
        await asyncio.sleep(0)
        if self.absent:
            self.absent -= 1
            raise Unavailable("not now")
        if dataset == "unknown":
            raise UnknownDataset("who?")
        return definition(len(dataset))


async def test_a_definition_that_several_want_at_once_is_fetched_once():
    store = Definitions()
    definitions = DefinitionCache(store)

    got = await asyncio.gather(*(definitions.get("a") for _ in range(5)))

    assert got == [CachedDefinition(definition(1), "")] * 5
    assert store.asked == ["a"]


async def test_the_definitions_used_last_are_kept():
    store = Definitions()
    definitions = DefinitionCache(store)
    names = [f"{n:02}" for n in range(CACHED + 1)]
    for name in names[:-1]:
        await definitions.get(name)
    await definitions.get(names[0])
    await definitions.get(names[-1])
    assert definitions.nbytes == CACHED * len(definition(2))

    store.asked.clear()
    for name in (names[0], names[-1], names[2], names[1]):
        await definitions.get(name)

    assert store.asked == [names[1]]


async def test_a_definition_is_asked_for_until_the_dispatcher_answers(monkeypatch):
    monkeypatch.setattr(definition_cache, "RETRY", 0)
    store = Definitions()
    store.absent = 3

    assert (await DefinitionCache(store).get("a")).data == definition(1)
    assert len(store.asked) == 4


async def test_a_definition_that_is_missing_is_requested_again_by_the_next():
    store = Definitions()
    definitions = DefinitionCache(store)

    for _ in range(2):
        with pytest.raises(UnknownDataset):
            await definitions.get("unknown")

    assert len(store.asked) == 2

"""What reading is made of: one stream's messages, and the definitions of the runs."""

import asyncio

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import Refused, Unavailable, UnknownDataset
from penstock_worker import runners
from penstock_worker.runners import KEPT, CachedDefinition, DefinitionCache
from penstock_worker.send_buffer import SendBuffer


async def test_a_stream_asks_only_when_it_has_nothing_to_send():
    asked = []
    out = SendBuffer(1, asked.append)
    out.put(b"one")
    assert out.nbytes == 3
    assert await out.next() == b"one"
    assert asked == []

    waiting = asyncio.ensure_future(out.next())
    await asyncio.sleep(0)
    assert (asked, waiting.done()) == ([1], False)
    out.put(b"two")

    assert await waiting == b"two"
    assert (asked, out.wakes) == ([1], 1)


async def test_a_stream_that_is_answered_at_once_is_not_put_to_sleep():
    out = SendBuffer(1, lambda name: out.put(b"here"))

    assert await out.next() == b"here"
    assert out.wakes == 0


async def test_nothing_is_sent_behind_the_end():
    out = SendBuffer(1, lambda name: None)
    out.put(b"frame")
    out.end(b"end")
    out.put(b"late")

    assert [await out.next() for _ in range(4)] == [b"frame", b"end", None, None]


async def test_a_failure_comes_behind_what_is_there():
    out = SendBuffer(1, lambda name: None)
    out.put(b"frame")
    out.fail(Refused("no"))

    assert await out.next() == b"frame"
    with pytest.raises(Refused, match="no"):
        await out.next()


def definition(n):
    return encode(Dataset.range(n).node).to_bytes()


class Shelf:
    """A dispatcher that has definitions, and counts who asks."""

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
    shelf = Shelf()
    definitions = DefinitionCache(shelf)

    got = await asyncio.gather(*(definitions.get("a") for _ in range(5)))

    assert got == [CachedDefinition(definition(1), "")] * 5
    assert shelf.asked == ["a"]


async def test_the_definitions_used_last_are_kept():
    shelf = Shelf()
    definitions = DefinitionCache(shelf)
    names = [f"{n:02}" for n in range(KEPT + 1)]
    for name in names[:-1]:
        await definitions.get(name)
    await definitions.get(names[0])
    await definitions.get(names[-1])
    assert definitions.nbytes == KEPT * len(definition(2))

    shelf.asked.clear()
    for name in (names[0], names[-1], names[2], names[1]):
        await definitions.get(name)

    assert shelf.asked == [names[1]]


async def test_a_definition_is_asked_for_until_the_dispatcher_answers(monkeypatch):
    monkeypatch.setattr(runners, "AGAIN", 0)
    shelf = Shelf()
    shelf.absent = 3

    assert (await DefinitionCache(shelf).get("a")).data == definition(1)
    assert len(shelf.asked) == 4


async def test_a_definition_that_nobody_has_is_asked_for_again_by_the_next():
    shelf = Shelf()
    definitions = DefinitionCache(shelf)

    for _ in range(2):
        with pytest.raises(UnknownDataset):
            await definitions.get("unknown")

    assert len(shelf.asked) == 2

"""How many readers one identity may have, however many streams they come by."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from penstock.credentials.per_identity import PerIdentity, answer_to
from penstock.dataset.dataset import Dataset
from penstock.errors import Overloaded, Unavailable
from penstock_dispatcher.calls import ReaderSessions
from tests.dispatcher.running_dispatcher import FAST, reader_stream, register, request


async def opened(api):
    dataset = await register(api, Dataset.range(10))
    return (await api.open_iteration(request(dataset))).iteration


@pytest.fixture
def of_identity():
    return PerIdentity(2, "readers connected", "max_readers_per_identity")


async def test_readers_of_one_stream_are_counted_one_by_one_and_leave_with_it(of_identity):
    answer_to("ann")
    sessions = ReaderSessions(of_identity)
    for _ in range(3):  # heartbeats
        sessions.note("x", 7)
    sessions.note("y", 8)

    with pytest.raises(Overloaded, match="ann has 2 readers.*max_readers_per_identity"):
        sessions.note("z", 8)
    assert {name: sessions[name] for name in sessions} == {"x": 7, "y": 8, "z": 8}
    sessions.close()
    assert len(of_identity) == 0


async def test_one_identity_that_has_all_it_may_leaves_others_theirs(of_identity):
    answer_to("ann")
    streams = [ReaderSessions(of_identity) for _ in range(2)]
    for number, stream in enumerate(streams):
        stream.note(f"{number}", 1)
    answer_to("bob")
    ReaderSessions(of_identity).note("x", 1)

    answer_to("ann")
    third = ReaderSessions(of_identity)
    with pytest.raises(Overloaded):
        third.note("z", 1)
    streams[0].close()
    third.note("z", 1)


async def test_a_reader_that_comes_back_ends_its_old_stream_also_where_there_is_no_room(opening):
    api, _ = await opening(replace(FAST, limits={"max_readers_per_identity": 1}))
    iteration = await opened(api)
    async with reader_stream(api, iteration) as old:
        await old.hear()
        with pytest.raises(Overloaded, match="max_readers_per_identity"):
            async with reader_stream(api, iteration, "another") as other:
                await other.hear()
        async with reader_stream(api, iteration) as new:  # its network was away, and is back
            with suppress(Overloaded):
                await new.hear()
        with pytest.raises(Unavailable, match="took over"):
            while True:
                await old.hear()
        async with asyncio.timeout(20):
            while True:
                async with reader_stream(api, iteration) as again:
                    with suppress(Overloaded):
                        assert await again.hear()
                        break

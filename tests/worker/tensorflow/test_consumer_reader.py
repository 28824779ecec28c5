"""A consumer of coordinated reads that is a TensorFlow client."""

import asyncio

import pytest

from penstock.errors import DatasetError, Unavailable
from penstock.protocol.tensorflow import END_OF_SEQUENCE
from penstock_worker.tensorflow.consumer_reader import ConsumerReader
from penstock_worker.tensorflow.pass_reader import PassReader


class Rounds:
    """The rounds from *start* on, up to *last*; those below *floor* cannot be had."""

    def __init__(self, start, last=100, floor=0):
        self.round, self.last, self.floor = start, last, floor
        self.closed = False

    def __next__(self):
        if self.round < self.floor:
            raise DatasetError(f"rounds from {self.floor} on can be had")
        if self.round >= self.last:
            raise StopIteration
        self.round += 1
        return f"round {self.round - 1}".encode()

    def close(self):
        self.closed = True


class World:
    def __init__(self, start=None, others=0, **more):
        self.opened, self.noted, self.away = [], [], False
        self.others, self.more = others, more
        self.reader = ConsumerReader(self.open_at, start, self.note)

    def open_at(self, start):
        self.opened.append(start)
        rounds = Rounds(self.others if start is None else start, **self.more)
        return PassReader(lambda: rounds, in_rounds=True)

    async def note(self, asked, is_round):
        if self.away:
            raise Unavailable("the dispatcher is away")
        self.noted.append((asked, is_round))

    async def read(self, *asked):
        return [(await self.reader.next(number)).decode() for number in asked]


async def test_rounds_come_one_after_another_and_the_first_is_noted():
    world = World()

    assert await world.read(0, 1, 2) == ["round 0", "round 1", "round 2"]
    assert world.noted == [(0, 0)]
    await world.reader.close()


async def test_a_request_that_comes_again_gets_the_same_reply():
    world = World()

    assert await world.read(0, 1, 1, 2) == ["round 0", "round 1", "round 1", "round 2"]
    await world.reader.close()


async def test_on_another_worker_it_goes_on_with_its_round_whatever_its_client_counts():
    world = World(start=41)

    assert await world.read(57, 58) == ["round 41", "round 42"]
    assert world.noted == [(57, 41)]
    await world.reader.close()


async def test_where_a_client_counts_otherwise_that_is_noted():
    world = World()

    assert await world.read(0, 1, 5, 0) == ["round 0", "round 1", "round 2", "round 3"]
    assert world.noted == [(0, 0), (5, 2), (0, 3)]
    await world.reader.close()


async def test_nothing_is_answered_before_it_is_noted():
    world = World()
    world.away = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await world.read(0)

    world.away = False

    assert await world.read(0, 1) == ["round 0", "round 1"]
    await world.reader.close()


async def test_a_client_that_begins_anew_gets_what_the_others_get():
    world = World(start=0, others=60, floor=58)

    assert await world.read(0, 1) == ["round 60", "round 61"]
    assert world.opened == [0, None]
    assert world.noted == [(0, 60)]
    await world.reader.close()


async def test_one_that_goes_on_with_a_round_that_cannot_be_had_is_told():
    world = World(start=12, others=60, floor=58)

    with pytest.raises(DatasetError, match="rounds from 58 on"):
        await world.read(3)
    await world.reader.close()


async def test_the_end_comes_again_and_again():
    world = World(last=1)
    replies = [await world.reader.next(asked) for asked in (0, 1, 1, 2)]

    assert replies[1:] == [END_OF_SEQUENCE] * 3
    await world.reader.close()


async def test_several_requests_at_once_are_answered_in_their_order():
    world = World()
    replies = await asyncio.gather(*(world.reader.next(asked) for asked in (0, 1, 2)))

    assert [reply.decode() for reply in replies] == ["round 0", "round 1", "round 2"]
    await world.reader.close()


async def test_after_its_end_requests_are_to_be_tried_again():
    world = World()
    await world.read(0)
    await world.reader.close()

    with pytest.raises(Unavailable):
        await world.read(1)

"""Workers in this process, and how they are read."""

import asyncio
import os

import pytest

from penstock.errors import Unavailable
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.nearness import KnownWorker
from penstock.protocol.ranges import RangeSet
from penstock.transport.in_process import here, offered, to_worker

FRAME = FrameHeader(1, 1, 1, 0, 2, 0, RangeSet(((0, 2),)), b"")
PAYLOAD = memoryview(b"payload")


class Worker:
    """Sends a frame, and the end when it heard all of *acks* requests."""

    def __init__(self, acks=1):
        self.heard, self.open, self._acks = [], 0, acks

    async def hand_over(self, requests):
        self.open += 1
        try:
            for _ in range(self._acks):
                self.heard.append(await anext(requests))
            yield [(FRAME, PAYLOAD)]
            yield [(StreamEnd(1, 1), memoryview(b""))]
            await asyncio.Event().wait()
        finally:
            self.open -= 1


async def requests(*given):
    for one in given:
        yield one
    await asyncio.Event().wait()


async def test_what_it_sends_is_handed_over_as_it_is():
    worker, greeted = Worker(2), []
    with offered("w:1", 7, worker):
        async with to_worker(KnownWorker("w:1", 7)) as transport:
            await transport.answer(1)
            reading = transport.read(requests("open", "ack"), lambda: greeted.append(1))
            replies = [reply async for message in reading for reply in message]

    assert replies[0][0] is FRAME
    assert replies[0][1] is PAYLOAD
    assert [type(header) for header, _ in replies] == [FrameHeader, StreamEnd]
    assert (worker.heard, greeted, worker.open) == (["open", "ack"], [1], 0)


async def test_a_reader_that_stops_leaves_no_stream_behind():
    worker = Worker()
    with offered("w:1", 7, worker):
        async with to_worker(KnownWorker("w:1", 7)) as transport:
            reading = transport.read(requests("open"))
            await anext(reading)
            assert worker.open == 1

            await reading.aclose()

    assert worker.open == 0


async def test_a_worker_is_here_as_long_as_it_is_offered():
    with offered("w:1", 7, Worker()):
        assert here() == {"w:1": 7}
        async with to_worker(KnownWorker("w:1", 7)) as transport:
            assert not transport.broken

    assert here() == {}
    assert transport.broken
    with pytest.raises(Unavailable, match="w:1 is not in this process"):
        await transport.answer(1)
    with pytest.raises(Unavailable, match="w:1 is not in this process"):
        await anext(transport.read(requests("open")))


async def test_another_life_of_a_worker_is_another_worker():
    with offered("w:1", 7, Worker()):
        with pytest.raises(Unavailable, match="not in this process"):
            async with to_worker(KnownWorker("w:1", 6)):
                pass
        with offered("w:1", 8, Worker()):
            assert here() == {"w:1": 8}
    assert here() == {}


async def test_a_forked_process_has_no_workers(monkeypatch):
    with offered("w:1", 7, Worker()):
        monkeypatch.setattr(os, "getpid", lambda: -1)

        assert here() == {}


async def test_a_worker_of_another_event_loop_is_not_read_so():
    async def read():
        async with to_worker(KnownWorker("w:1", 7)):
            pass

    with offered("w:1", 7, Worker()):
        with pytest.raises(Unavailable, match="in another event loop"):
            await asyncio.to_thread(asyncio.run, read())

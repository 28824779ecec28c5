"""A pass that is read for TensorFlow's clients."""

import asyncio
import threading

import pytest

from penstock.errors import DatasetError, Unavailable
from penstock.protocol.tensorflow import END_OF_SEQUENCE
from penstock_worker.tensorflow.pass_reader import PassReader


class Elements:
    """Replies, each after its turn; errors are raised."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.turn = threading.Semaphore(0)
        self.closed = threading.Event()

    def __next__(self):
        assert self.turn.acquire(timeout=20)
        if not self.replies:
            raise StopIteration
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self):
        self.closed.set()

    def free(self, count=100):
        for _ in range(count):
            self.turn.release()
        return self


async def test_replies_come_in_order_and_then_the_end():
    reader = PassReader(Elements(b"a", b"b").free)

    found = [await reader.next() for _ in range(4)]

    assert found == [b"a", b"b", END_OF_SEQUENCE, END_OF_SEQUENCE]
    await reader.close()


async def test_a_request_that_is_cancelled_leaves_its_element_to_the_next():
    elements = Elements(b"a", b"b")
    reader = PassReader(lambda: elements)
    asking = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    elements.free()

    assert [await reader.next(), await reader.next()] == [b"a", b"b"]
    await reader.close()


async def test_several_clients_take_turns():
    reader = PassReader(Elements(b"a", b"b", b"c").free)

    found = await asyncio.gather(*(reader.next() for _ in range(4)))

    assert sorted(found) == sorted([b"a", b"b", b"c", END_OF_SEQUENCE])
    await reader.close()


async def test_what_a_users_function_raised_is_raised_again_and_again():
    reader = PassReader(Elements(b"a", DatasetError("it broke")).free)
    assert await reader.next() == b"a"

    for _ in range(2):
        with pytest.raises(DatasetError, match="it broke"):
            await reader.next()
    await reader.close()


async def test_what_may_be_over_is_tried_again():
    reader = PassReader(Elements(Unavailable("away"), b"a").free)

    with pytest.raises(Unavailable):
        await reader.next()
    assert await reader.next() == b"a"
    await reader.close()


async def test_what_cannot_be_opened_is_the_error():
    def opened():
        raise Unavailable("nobody there")

    reader = PassReader(opened)

    with pytest.raises(Unavailable, match="nobody there"):
        await reader.next()
    await reader.close()


async def test_one_that_is_closed_closes_what_it_reads():
    elements = Elements(b"a", b"b").free()
    reader = PassReader(lambda: elements)
    await reader.next()

    await reader.close()

    assert await asyncio.to_thread(elements.closed.wait, 20)

"""What waits to be sent on one stream to a reader."""

import asyncio

import pytest

from penstock.errors import Refused
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.ranges import RangeSet
from penstock_worker.core.events import StreamWritable
from penstock_worker.reply_form import ENCODED, handed_over
from penstock_worker.send_buffer import SendBuffer


async def test_a_stream_asks_only_when_it_has_nothing_to_send():
    asked = []
    out = SendBuffer(1, asked.append, ENCODED)
    out.put(b"one")
    assert out.nbytes == 3
    assert await out.next() == b"one"
    assert asked == []

    waiting = asyncio.ensure_future(out.next())
    await asyncio.sleep(0)
    assert (asked, waiting.done()) == ([StreamWritable(1)], False)
    out.put(b"two")

    assert await waiting == b"two"
    assert (asked, out.wakes) == ([StreamWritable(1)], 1)


async def test_a_stream_that_is_answered_at_once_is_not_put_to_sleep():
    out = SendBuffer(1, lambda name: out.put(b"here"), ENCODED)

    assert await out.next() == b"here"
    assert out.wakes == 0


async def test_nothing_is_sent_behind_the_end():
    out = SendBuffer(1, lambda name: None, ENCODED)
    out.put(b"frame")
    out.end(b"end")
    out.put(b"late")

    assert [await out.next() for _ in range(4)] == [b"frame", b"end", None, None]


async def test_a_failure_comes_behind_what_is_there():
    out = SendBuffer(1, lambda name: None, ENCODED)
    out.put(b"frame")
    out.fail(Refused("no"))

    assert await out.next() == b"frame"
    with pytest.raises(Refused, match="no"):
        await out.next()


async def test_it_is_said_how_long_what_was_taken():
    asked, now = [], 10.0
    out = SendBuffer(1, asked.append, ENCODED, lambda: now)
    out.put(b"recall")
    out.put(b"frame")
    await out.next()
    now += 1
    await out.next()
    now += 2
    waiting = asyncio.ensure_future(out.next())
    await asyncio.sleep(0)
    now += 100  # nothing is under way
    out.put(b"more")
    await waiting
    now += 4
    waiting = asyncio.ensure_future(out.next())
    await asyncio.sleep(0)
    waiting.cancel()

    assert asked == [StreamWritable(1, 11, 3.0), StreamWritable(1, 4, 4.0)]


HANDED_OVER = handed_over(lambda frame, payload: payload(frame))


def test_what_is_handed_over_is_what_was_taken_of_each_frame():
    payload = memoryview(b"payload")
    header = FrameHeader(1, 1, 1, 0, 1, 0, RangeSet(((0, 1),)), b"")

    message = HANDED_OVER.frames([(header, None)], lambda _: payload)

    ((same, taken),) = message
    assert same is header
    assert taken is payload
    assert HANDED_OVER.nbytes(message) == 7


def test_what_is_not_a_frame_is_handed_over_with_no_payload():
    end = StreamEnd(1, 1)

    assert HANDED_OVER.reply(end) == [(end, b"")]

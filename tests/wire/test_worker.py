import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, TransformError, VersionMismatch
from penstock.protocol.data import Ack, FrameHeader, Recall, StreamEnd, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Codec, Failure
from penstock.wire._pb import worker_pb2
from penstock.wire.connection import connect, listening
from penstock.wire.stream import from_this_host, is_peer_of_this_host
from penstock.wire.worker import (
    WorkerClient,
    decode_replies,
    decode_reply,
    encode_frames,
    encode_reply,
    worker_handlers,
)

OPEN = Subscribe(1, 5, 1, 2, AckedSet(3), RangeSet(), 1 << 20)


def a_frame(first, **changes):
    fields = {
        "count": 1,
        "floor": 0,
        "ranges": RangeSet(((first, first + 1),)),
        "layout": b"layout",
    }
    return FrameHeader(5, 1, 2, first, **{**fields, **changes})


class FakeWorker:
    """Sends as many frames as it has credit for, then the end."""

    def __init__(self, frames=3):
        self.frames = frames
        self.acks = []
        self.ended = asyncio.Event()
        self.stream_end = StreamEnd(5, 1)

    async def read(self, requests):
        try:
            opened = await anext(requests)
            assert opened == OPEN
            for first in range(self.frames):
                yield encode_reply(a_frame(first), memoryview(bytes([first]) * 1000))
                async with asyncio.timeout(5):
                    self.acks.append(await anext(requests))
            yield encode_reply(Recall(5, 1))
            yield encode_reply(self.stream_end)
        finally:
            self.ended.set()

    async def status(self):
        return b"{}"


@asynccontextmanager
async def far(api):
    async with (
        listening(worker_handlers(api), host="127.0.0.1", port=0, drain=0) as port,
        connect(f"127.0.0.1:{port}") as channel,
    ):
        yield WorkerClient(channel)


class NearWorker:
    """A worker in this very process; its messages are decoded as at the end of a line."""

    def __init__(self, api):
        self._api = api
        self.status = api.status

    async def read(self, requests):
        async for message in self._api.read(requests):
            yield decode_replies(message)


@asynccontextmanager
async def near(api):
    yield NearWorker(api)


@pytest.fixture(params=[near, far], ids=["near", "far"])
def reach(request):
    return request.param


async def each(messages):
    async for message in messages:
        for reply in message:
            yield reply


async def read_all(worker):
    """Read a stream, acknowledging each frame."""
    took = asyncio.Queue()

    async def requests():
        yield OPEN
        while True:
            yield Ack(await took.get(), 1000)

    replies = []
    async for header, payload in each(worker.read(requests())):
        replies.append((header, bytes(payload)))
        if isinstance(header, FrameHeader):
            took.put_nowait(header.ranges)
    return replies


async def test_a_stream_is_read_to_its_end(reach):
    api = FakeWorker()

    async with reach(api) as worker, asyncio.timeout(5):
        replies = await read_all(worker)

    assert replies == [
        *((a_frame(first), bytes([first]) * 1000) for first in range(3)),
        (Recall(5, 1), b""),
        (StreamEnd(5, 1), b""),
    ]
    assert api.acks == [Ack(RangeSet(((k, k + 1),)), 1000) for k in range(3)]


async def test_a_failure_of_the_task_comes_as_the_end_of_the_stream(reach):
    api = FakeWorker(frames=1)
    api.stream_end = StreamEnd(5, 1, Failure.of(TransformError("map(f)", 1, "no", "w:1", "...")))

    async with reach(api) as worker, asyncio.timeout(5):
        *_, (end, _) = await read_all(worker)

    assert isinstance(end.failure.error(), TransformError)


@pytest.mark.slow
async def test_no_frame_is_lost_though_the_reader_writes_when_the_stream_ends():
    class Hasty(FakeWorker):
        async def read(self, requests):
            await anext(requests)
            for first in range(20):
                yield encode_reply(a_frame(first), b"x" * 1000)
            yield encode_reply(StreamEnd(5, 1))

    async def storm():
        yield OPEN
        while True:
            yield Ack(RangeSet(), 1)
            await asyncio.sleep(0)

    async with far(Hasty()) as worker, asyncio.timeout(30):
        for _ in range(100):
            headers = [header async for header, _ in each(worker.read(storm()))]
            assert headers == [*map(a_frame, range(20)), StreamEnd(5, 1)]


async def test_a_reader_that_half_closes_as_the_end_arrives_reads_the_end():
    class Echo(FakeWorker):
        async def read(self, requests):
            await anext(requests)
            yield encode_reply(a_frame(0))
            yield encode_reply(StreamEnd(5, 1))

    async with far(Echo()) as worker, asyncio.timeout(30):
        for turns in range(200):
            leaving = asyncio.Event()

            async def requests():
                yield OPEN
                await leaving.wait()
                for _ in range(turns % 10):
                    await asyncio.sleep(0)

            headers = []
            async for header, _ in each(worker.read(requests())):
                headers.append(header)
                leaving.set()
            assert headers == [a_frame(0), StreamEnd(5, 1)]


async def test_behind_the_end_the_reader_may_just_leave():
    api = FakeWorker(frames=0)

    async def requests():
        yield OPEN
        await asyncio.Event().wait()

    async with far(api) as worker, asyncio.timeout(5):
        async for header, _ in each(worker.read(requests())):
            if isinstance(header, StreamEnd):
                break
        await api.ended.wait()


async def test_what_is_not_bytes_fails_instead_of_hanging(caplog):
    class Careless(FakeWorker):
        async def read(self, requests):
            yield memoryview(b"abc")

    async with far(Careless()) as worker, asyncio.timeout(5):
        with pytest.raises(PenstockError, match="must be bytes, not memoryview"):
            await read_all(worker)

    assert "Read failed" in caplog.text


async def test_requests_may_be_waited_for_with_a_timeout():
    class Impatient(FakeWorker):
        async def read(self, requests):
            got = []
            while len(got) < 3:
                try:
                    async with asyncio.timeout(0.01):
                        got.append(await anext(requests))
                except TimeoutError:
                    yield encode_reply(Recall(len(got), 1))
            yield encode_reply(StreamEnd(len(got), 1))

    heard = asyncio.Queue()

    async def requests():
        yield OPEN
        for _ in range(2):
            await heard.get()
            yield Ack(RangeSet(), 1)

    async with far(Impatient()) as worker, asyncio.timeout(10):
        async for header, _ in each(worker.read(requests())):
            if isinstance(header, Recall):
                heard.put_nowait(header)

    assert header == StreamEnd(3, 1)


# --- the message ---


@given(st.binary(max_size=300), st.integers(0, 2**40), st.binary(max_size=200))
def test_a_frame_comes_back_as_it_was_and_starts_on_a_boundary(payload, first, layout):
    frame = a_frame(first, layout=layout, codec=Codec.LZ4, raw_nbytes=9)

    message = encode_reply(frame, memoryview(payload))
    header, view = decode_reply(message)

    assert (header, view) == (frame, payload)
    assert view.readonly
    assert type(message) is bytes
    assert not payload or (len(message) - len(payload)) % 64 == 0


@given(st.binary(max_size=300), st.binary(max_size=200))
def test_any_protobuf_library_reads_and_writes_the_message(payload, layout):
    frame = a_frame(3, layout=layout)
    message = worker_pb2.FrameHeader.FromString(encode_reply(frame, payload))

    assert message.payload == payload
    assert decode_reply(message.SerializeToString()) == (frame, payload)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_frames_that_share_a_message_come_back_one_by_one_on_boundaries(payloads):
    frames = [(a_frame(n), memoryview(payload)) for n, payload in enumerate(payloads)]

    message = encode_frames(frames)

    assert decode_replies(message) == frames
    whole = np.frombuffer(message, np.uint8).ctypes.data
    starts = [np.frombuffer(view, np.uint8).ctypes.data for _, view in decode_replies(message)]
    assert all(
        (start - whole) % 64 == 0 for start, load in zip(starts, payloads, strict=True) if load
    )


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=5))
def test_any_protobuf_library_reads_frames_that_share_a_message(payloads):
    frames = [(a_frame(n), memoryview(payload)) for n, payload in enumerate(payloads)]
    message = worker_pb2.FrameHeader.FromString(encode_frames(frames))

    assert [frame.payload for frame in message.frames] == payloads
    assert decode_replies(message.SerializeToString()) == frames


@given(st.data())
def test_half_a_message_of_several_frames_is_refused_or_lacks_the_last(data):
    frames = [(a_frame(n), memoryview(b"x" * 50)) for n in range(3)]
    message = encode_frames(frames)
    cut = data.draw(st.integers(0, len(message) - 1))

    try:
        replies = decode_replies(message[:cut])
    except VersionMismatch:
        return
    assert replies == frames[: len(replies)] and len(replies) < 3


def test_more_frames_than_a_message_may_have_are_refused_and_not_left_out():
    one = encode_frames([(a_frame(n), memoryview(b"x")) for n in range(2)])

    with pytest.raises(VersionMismatch, match="fields"):
        decode_replies(one * 5000)


def test_what_shares_a_message_and_is_no_frame_is_refused():
    both = encode_frames([(a_frame(0), memoryview(b"x")), (Recall(5, 1), memoryview(b""))])

    with pytest.raises(VersionMismatch, match="shares it"):
        decode_replies(both)


async def test_a_reader_gets_frames_that_share_a_message_at_once():
    frames = [(a_frame(n), memoryview(b"abc")) for n in range(3)]

    class Joining:
        async def read(self, requests):
            await anext(requests)
            yield encode_frames(frames)
            yield encode_reply(StreamEnd(5, 1))

    async def requests():
        yield OPEN

    async with far(Joining()) as worker:
        got = [message async for message in worker.read(requests())]

    assert got == [frames, [(StreamEnd(5, 1), b"")]]


def test_the_payload_is_not_copied_where_it_arrives():
    message = encode_reply(a_frame(0), b"x" * 100)

    _, view = decode_reply(message)

    assert view.obj is message


def test_fields_from_the_future_are_skipped():
    message = encode_reply(a_frame(0), b"abc")
    future = b"\x98\x06\x05" + b"\xa1\x06" + bytes(8) + b"\xaa\x06\x02hi" + b"\xb5\x06" + bytes(4)

    assert decode_reply(future + message + future) == (a_frame(0), b"abc")


@given(st.binary(max_size=60))
def test_garbage_is_refused(garbage):
    for decode in (decode_reply, decode_replies):
        with pytest.raises(VersionMismatch, match="no frame"):
            decode(garbage)


@given(st.data())
def test_half_a_message_is_refused_or_lacks_its_payload(data):
    message = encode_reply(a_frame(0), b"x" * 200)
    cut = data.draw(st.integers(0, len(message) - 1))

    try:
        _, payload = decode_reply(message[:cut])
    except VersionMismatch:
        return
    assert not payload


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": -1},
        {"count": 2, "ranges": RangeSet(((0, 3),))},
        {"ranges": RangeSet(((7, 8),))},
        {"ranges": RangeSet(((1, 0),))},
        {"count": 9, "ranges": RangeSet(((5, 6), (1, 2)))},
        {"count": 9, "ranges": RangeSet(((1, 2), (2, 3)))},
        {"attempt": -1},
        {"floor": -1},
    ],
    ids=str,
)
def test_a_header_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(VersionMismatch, match="no frame"):
        decode_reply(encode_reply(replace(a_frame(0), **wrong), b"payload"))


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "data", [b"\x80" * 10_000_000, b"\x18\x00" * 5_000_000], ids=["long", "many"]
)
def test_numbers_and_fields_without_end_are_refused_at_once(data):
    for decode in (decode_reply, decode_replies):
        with pytest.raises(VersionMismatch, match="no frame"):
            decode(data)


async def test_a_worker_knows_whether_a_reader_is_on_its_own_host(reach):
    class Asking(FakeWorker):
        async def read(self, requests):
            self.here = from_this_host(requests)
            async for message in super().read(requests):
                yield message

    api = Asking()
    async with reach(api) as worker, asyncio.timeout(5):
        await read_all(worker)

    assert api.here is (reach is far)


@pytest.mark.parametrize(
    ("peer", "here"),
    [
        ("ipv4:127.0.0.1:42", True),
        ("ipv6:%5B::1%5D:42", socket.has_dualstack_ipv6()),
        ("unix:", True),
        ("ipv4:192.0.2.7:42", False),
        ("ipv6:%5B2001:db8::7%5D:42", False),
        ("", False),
    ],
)
def test_a_peer_is_on_this_host_or_on_another(peer, here):
    context = SimpleNamespace(peer=lambda: peer)

    assert is_peer_of_this_host(context) is here

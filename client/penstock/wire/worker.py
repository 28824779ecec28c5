"""The worker's gRPC methods, with Penstock's own types, and the message that carries elements.

A frame is the protobuf message ``Frame { bytes header = 1; bytes payload = 2; }``, written and
read without protobuf around one buffer: one copy where it is sent (gRPC takes `bytes` only), none
where it arrives. Several small ones may share a message, ``repeated Frame frames = 4``, since what
a message costs hardly depends on its size.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc
import msgspec

from penstock.credentials.access import certified_name
from penstock.credentials.caller import Caller
from penstock.errors import PenstockError, VersionMismatch
from penstock.protocol.calls import StatusReply, StatusRequest, TraceReply, TraceRequest
from penstock.protocol.data import (
    AllSent,
    FrameHeader,
    ReadReply,
    ReadRequest,
    Recall,
    StreamEnd,
    TraceEvent,
    decode_events,
)
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.nearness import KnownWorker
from penstock.wire.codec import Form, form
from penstock.wire.connection import Channel, connect
from penstock.wire.rpc import StreamRpc, UnaryRpc

Replies = list[tuple[ReadReply, memoryview]]
"""The content of one message: one or several pairs of a header and a view of its payload."""


class WorkerApi(Protocol):
    """The methods of a worker for readers, in this process or over the network."""

    def read(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[bytes]:
        """Yield a task's elements for one reader, as messages.

        `encode_reply` makes messages of one frame, `encode_frames` messages of several. The first
        request is a `Subscribe`, the others are `Ack`. The last message is a `StreamEnd`.
        """
        ...

    async def status(self) -> bytes:
        """Return the worker's counters as JSON."""
        ...

    async def trace(self, after: int) -> TraceReply:
        """Return the events of frames from event number *after* on, and continue recording.

        If *after* is below 0, start with the next event.
        """
        ...


class WorkerClient:
    """Calls the worker at the other end of *channel*; a unary call waits *timeout* seconds."""

    def __init__(self, channel: Channel, *, timeout: float = 5.0) -> None:
        self._channel = channel
        self._timeout = timeout

    @property
    def broken(self) -> bool:
        """See `Transport.broken`: a channel connects again by itself."""
        return False

    def read(
        self, requests: AsyncIterator[ReadRequest], greeted: Callable[[], None] | None = None
    ) -> AsyncGenerator[Replies, None]:
        """See `Transport.read`."""
        return READ.call(self._channel, requests, greeted)

    async def answer(self, timeout: float) -> None:
        """See `Transport.answer`."""
        await HEALTH.call(self._channel, b"", timeout)

    async def status(self) -> bytes:
        """See `WorkerApi.status`."""
        return (await STATUS.call(self._channel, StatusRequest(), self._timeout)).stats

    async def trace(self, after: int) -> tuple[list[TraceEvent], TraceReply]:
        """Return the events of frames from number *after* on, and the reply that held them.

        Raises:
            VersionMismatch: when they are something else.
        """
        reply = await TRACE.call(self._channel, TraceRequest(after), self._timeout)
        try:
            return decode_events(reply.events), reply
        except ValueError as exc:
            raise VersionMismatch(f"the worker is of another version: {exc}") from exc


SERVER = certified_name("worker")
"""The name in every worker's certificate, whatever its host; the dispatcher tells the address."""


@asynccontextmanager
async def to_worker(worker: KnownWorker, caller: Caller) -> AsyncIterator[WorkerClient]:
    """Open a transport to *worker* as *caller*; the first read opens the connection."""
    async with connect(worker.address, caller=caller, server=SERVER) as channel:
        yield WorkerClient(channel)


class _StatusSeen(msgspec.Struct):
    incarnation: int


async def lives(worker: KnownWorker, caller: Caller, timeout: float) -> bool:
    """Return whether *worker* answers *caller* within *timeout* seconds, in this incarnation.

    Another process that has its address by now does not count.
    """
    try:
        async with connect(worker.address, caller=caller, server=SERVER) as channel:
            stats = await WorkerClient(channel, timeout=timeout).status()
        return msgspec.json.decode(stats, type=_StatusSeen).incarnation == worker.incarnation
    except PenstockError:
        return False
    except MALFORMED:  # it is of another version, so it is another definition
        return False


def worker_handlers(api: WorkerApi) -> grpc.GenericRpcHandler:
    """Return handlers that answer the worker's methods with *api*."""

    async def status(_request: StatusRequest) -> StatusReply:
        return StatusReply(await api.status())

    async def trace(request: TraceRequest) -> TraceReply:
        return await api.trace(request.after)

    methods = {
        "Read": READ.handler(api.read),
        "Status": STATUS.handler(status),
        "Trace": TRACE.handler(trace),
    }
    return grpc.method_handlers_generic_handler("penstock.v1.Worker", methods)


def encode_reply(header: ReadReply, payload: memoryview | bytes = b"") -> bytes:
    """Return the message that carries *header* and *payload*: one copy of the payload."""
    return b"".join((_prefix(header, memoryview(payload).nbytes), payload))


def encode_frames(frames: Sequence[tuple[FrameHeader, memoryview]]) -> bytes:
    """Return one message that carries several frames: one copy of each payload."""
    if len(frames) == 1:
        return encode_reply(*frames[0])
    parts: list[bytearray | memoryview] = []
    at = 0
    for header, payload in frames:
        prefix = _prefix(header, payload.nbytes)
        opening = bytearray((_JOINED_TAG,))
        _put_varint(opening, len(prefix) + payload.nbytes)
        gap = bytearray()
        _pad(gap, at + len(opening))
        parts += (gap, opening, prefix, payload)
        at += len(gap) + len(opening) + len(prefix) + payload.nbytes
    return b"".join(parts)


def _prefix(header: ReadReply, nbytes: int) -> bytearray:
    """Return the part of a message that precedes a payload of *nbytes*."""
    if isinstance(header, FrameHeader):
        head = _ENCODER.encode(_Header(frame=header))
    elif isinstance(header, Recall):
        head = _ENCODER.encode(_Header(recall=header))
    elif isinstance(header, AllSent):
        head = _ENCODER.encode(_Header(all_sent=header))
    else:
        head = _ENCODER.encode(_Header(end=header))
    prefix = bytearray((_HEADER_TAG,))
    _put_varint(prefix, len(head))
    prefix += head
    if nbytes:
        opening = bytearray((_PAYLOAD_TAG,))
        _put_varint(opening, nbytes)
        _pad(prefix, len(opening))
        prefix += opening
    return prefix


def decode_replies(message: bytes) -> Replies:
    """Return the header and payload of each frame in *message*, which may hold a single one."""
    if message[:1] == bytes((_HEADER_TAG,)):
        return [decode_reply(message)]
    view, found, at = memoryview(message), Replies(), 0
    try:
        for _ in range(_MOST_JOINED):
            if at >= len(message):
                break
            key, at = _get_varint(message, at)
            at, stop = _span(message, key & 7, at)
            if key == _JOINED_TAG:
                found.append(part := decode_reply(view[at:stop]))
                if not isinstance(part[0], FrameHeader):
                    raise ValueError(f"{part[0]!r:.80} shares it with others")
            at = stop
        if at < len(message):
            raise ValueError(f"more than {_MOST_JOINED} fields")
    except MALFORMED as exc:
        raise VersionMismatch(_no_frame(message, repr(exc))) from exc
    return found or [decode_reply(message)]


def decode_reply(message: bytes | memoryview) -> tuple[ReadReply, memoryview]:
    """Return the header of *message*, and its payload as a view of it.

    Raises:
        VersionMismatch: when *message* is something else.
    """
    view = memoryview(message)
    head = payload = view[:0]
    try:
        at = 0
        for _ in range(_MOST_FIELDS):
            if at >= len(message):
                break
            key, at = _get_varint(message, at)
            at, stop = _span(message, key & 7, at)
            if key == _HEADER_TAG:
                head = view[at:stop]
            elif key == _PAYLOAD_TAG:
                payload = view[at:stop]
            at = stop
        header = _DECODER.decode(head)
        reply = header.frame or header.recall or header.all_sent or header.end
        if reply is None:
            raise ValueError("its header has no alternative that is known")
        if isinstance(reply, FrameHeader):
            check_header(reply)
    except MALFORMED as exc:
        raise VersionMismatch(_no_frame(message, repr(exc))) from exc
    return reply, payload


_HEADER_TAG = 1 << 3 | 2
_PAYLOAD_TAG = 2 << 3 | 2
_PADDING_TAG = 3 << 3 | 2
_JOINED_TAG = 4 << 3 | 2
_BOUNDARY = 64
_MOST_FIELDS = 64
_MOST_JOINED = 1 << 14
"""Most fields of a message of several frames, which has two for each frame."""
_MOST_VARINT = 63
"""Most bits before the last byte of a number."""


class _Header(msgspec.Struct, omit_defaults=True, frozen=True):
    """Exactly one of these."""

    frame: FrameHeader | None = None
    recall: Recall | None = None
    all_sent: AllSent | None = None
    end: StreamEnd | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Header)


def _pad(out: bytearray, behind: int) -> None:
    """Add a field of zeros so that the payload, *behind* bytes after it, starts on a boundary.

    `bytes` start at a multiple of 16 in memory, and then the payload does too.
    """
    missing = -(len(out) + behind) % _BOUNDARY
    if missing:
        missing += _BOUNDARY * (missing < 2)
        out += bytes((_PADDING_TAG, missing - 2)) + bytes(missing - 2)


def _put_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def check_header(frame: FrameHeader) -> None:
    """Check a header for contradictions, because a reader would wait for numbers not in the frame.

    Raises:
        ValueError: when it contradicts itself; the message says how.
    """
    stop = frame.first + frame.count
    if (
        frame.first < 0
        or frame.count < 1
        or min(frame.attempt, frame.subscription, frame.floor) < 0
    ):
        raise ValueError(f"a frame of {frame.count} elements from number {frame.first} on")
    frame.ranges.check()
    spans = frame.ranges.spans
    if spans and not frame.first <= spans[0][0] < spans[-1][1] <= stop:
        raise ValueError(f"numbers {spans[0][0]} to {spans[-1][1]} of a frame that ends at {stop}")


def _get_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) > 0x7F:
        if shift >= _MOST_VARINT:
            raise ValueError(f"the number before byte {at} is too long")
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


def _span(data: bytes | memoryview, wire_type: int, at: int) -> tuple[int, int]:
    """Return where the contents of a field start and stop."""
    match wire_type:
        case 0:
            return at, _get_varint(data, at)[1]
        case 1:
            stop = at + 8
        case 2:
            length, at = _get_varint(data, at)
            stop = at + length
        case 5:
            stop = at + 4
        case _:
            raise IndexError(f"wire type {wire_type} at byte {at}")
    if stop > len(data):
        raise IndexError(f"a field ends at {stop}, behind the message's {len(data)} bytes")
    return at, stop


def _no_frame(message: bytes | memoryview, why: str) -> str:
    return (
        f"{len(message)} bytes arrived that are no frame ({why}): the sender is no Penstock "
        "worker, or of a version that this one does not know"
    )


def _exact(message: bytes) -> bytes:
    # gRPC accepts only bytes; with anything else its client waits forever.
    if type(message) is not bytes:
        raise TypeError(f"a message must be bytes, not {type(message).__name__}")
    return message


# The sender has encoded its messages already, next to the payload; this decodes received ones.
READ: StreamRpc[ReadRequest, Any] = StreamRpc(
    "/penstock.v1.Worker/Read",
    form(ReadRequest, name="ReadRequest"),
    Form(ReadReply, _exact, decode_replies),
    last=lambda replies: isinstance(replies[-1][0], StreamEnd),
    greets=True,
)
# An empty request asks about the whole service. Any answer will do here.
HEALTH: UnaryRpc[bytes, bytes] = UnaryRpc(
    "/grpc.health.v1.Health/Check", Form(bytes, _exact, bytes), Form(bytes, _exact, bytes)
)
STATUS = UnaryRpc.of("Worker/Status", StatusRequest, StatusReply)
TRACE = UnaryRpc.of("Worker/Trace", TraceRequest, TraceReply)

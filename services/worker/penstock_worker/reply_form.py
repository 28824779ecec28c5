"""What waits to be sent to a reader: bytes for gRPC, or headers and payloads to hand over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from penstock.protocol.data import FrameHeader, ReadReply
from penstock.wire.worker import Replies, encode_frames, encode_reply
from penstock_worker.runner.messages import FrameReady

M = TypeVar("M")

Frames: TypeAlias = Sequence[tuple[FrameHeader, FrameReady]]
Payload: TypeAlias = Callable[[FrameReady], memoryview]
"""Returns the bytes of a frame where its runner wrote them."""


@dataclass(frozen=True, slots=True)
class ReplyForm(Generic[M]):
    """How messages of one form are made: of *frames*, which are copied or lent; of one *reply*.

    *nbytes* is what a message takes while it waits; one that is never sent is passed to *drop*.
    A reader that is *near* is on this host: no link is spared for it. To one that
    *borrows* frames nothing is sent of them.
    """

    frames: Callable[[Frames, Payload], M]
    reply: Callable[[ReadReply], M]
    nbytes: Callable[[M], int]
    near: bool = False
    borrows: bool = False
    drop: Callable[[M], None] = lambda _: None


def _encoded(frames: Frames, payload: Payload) -> bytes:
    return encode_frames([(header, payload(frame)) for header, frame in frames])


def _alone(reply: ReadReply) -> Replies:
    return [(reply, memoryview(b""))]


def _payload_bytes(replies: Replies) -> int:
    return sum(payload.nbytes for _, payload in replies)


ENCODED = ReplyForm(_encoded, encode_reply, len)
"""For readers elsewhere."""


def handed_over(take: Callable[[FrameReady, Payload], memoryview]) -> ReplyForm[Replies]:
    """Return the form for readers in this process: *take* returns bytes that stay valid.

    Where its runner wrote a frame it writes again once that is acked.
    """

    def taken(frames: Frames, payload: Payload) -> Replies:
        return [(header, take(frame, payload)) for header, frame in frames]

    return ReplyForm(taken, _alone, _payload_bytes, near=True, borrows=True)

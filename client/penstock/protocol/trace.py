"""The times at which each process had a traced frame, in seconds since 1970.

Each process uses its own clock, so times of several hosts are comparable only if their clocks
agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from penstock.protocol.malformed import MALFORMED


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When a reader had the elements *start* to *stop* of a frame.

    It was *received*; its first element was *wanted* by the loop, which began to decode it, and was
    *decoded*; the last one was *taken*.
    """

    start: int
    stop: int
    received: float
    wanted: float
    decoded: float
    taken: float


class FrameSent(msgspec.Struct, frozen=True, tag="sent"):
    """A worker sent a part of a frame: *elements* of it, from number *start* on, in *nbytes*.

    Its runner *began* it, had it *full*, had it *placed* where there was room, and had it *written*
    there; the worker had it from *arrived* on and gave it to the stream at *sent*.
    """

    task: int
    attempt: int
    run: int
    reader: int
    start: int
    elements: int
    nbytes: int
    codec: str
    began: float
    full: float
    placed: float
    written: float
    arrived: float
    sent: float


class FrameTaken(msgspec.Struct, frozen=True, tag="taken"):
    """A reader said when it had what: see `FrameTimes`."""

    task: int
    attempt: int
    reader: int
    times: FrameTimes


TraceEvent = FrameSent | FrameTaken

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[TraceEvent])


def encode_events(events: Iterable[TraceEvent]) -> bytes:
    """Return *events* as bytes."""
    return _ENCODER.encode(list(events))


def decode_events(data: bytes) -> list[TraceEvent]:
    """Return the events that `encode_events` was given.

    Raises:
        ValueError: when *data* is something else.
    """
    try:
        return _DECODER.decode(data)
    except MALFORMED as exc:
        raise ValueError(f"{len(data)} bytes are no trace: {exc}") from exc

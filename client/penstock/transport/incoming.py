"""Cuts the bytes of a link that carries payloads in line into messages and their payloads.

It receives nothing itself: it says where the next bytes belong, so that payloads are received
where they stay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import VersionMismatch
from penstock.protocol.malformed import MALFORMED
from penstock.transport.link_messages import FromWorker, Sent
from penstock.transport.payload_places import payload_places
from penstock.wire.worker import check_header

HEAD = 1 << 13
"""The most bytes that are received at once while it is not known what they are.

Payload among them is copied, so this is small."""

LARGEST = 1 << 31
"""The most bytes of a message without its payloads, or of the payloads of one message."""

_LENGTH = struct.Struct("<Q")
_EMPTY = memoryview(bytearray())


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message, and the payloads that followed it."""

    message: FromWorker
    payloads: tuple[memoryview, ...] = ()


class Incoming:
    """The bytes of one connection; *take* returns the root array that payloads are received into.

    Receive the next bytes into `room`, then tell `took` how many they were.
    """

    def __init__(self, take: Callable[[int], NDArray[np.uint8]]) -> None:
        self._take = take
        self._decoder = msgspec.msgpack.Decoder[FromWorker](FromWorker)
        self._head = bytearray(HEAD)
        self._have = 0
        """The bytes of `_head` that belong to no complete message yet."""
        self._body: memoryview | None = None
        """The place of a long message, or of payloads; None while a head is received."""
        self._got = 0
        """The bytes that are there already."""
        self._sent: Sent | None = None
        """The message whose payloads are received."""

    @property
    def room(self) -> memoryview:
        """Where the next bytes belong."""
        if self._body is not None:
            return self._body[self._got :]
        return memoryview(self._head)[self._have :]

    @property
    def wanted(self) -> int:
        """How many more bytes are needed, as far as is known; 0 if any number is welcome."""
        return 0 if self._body is None else len(self._body) - self._got

    def took(self, nbytes: int) -> list[Arrived]:
        """Note that *nbytes* are in `room`; return the messages that are now complete.

        Raises:
            VersionMismatch: when they are no messages of a worker.
        """
        try:
            if self._body is None:
                self._have += nbytes
                return self._cut()
            self._got += nbytes
            return self._complete()
        except MALFORMED as exc:
            raise VersionMismatch(
                f"a worker sent what this reader cannot read ({exc}): it is of a version that "
                "this one does not know"
            ) from exc

    def _complete(self) -> list[Arrived]:
        """Return the message that `_body` completes, if it does, and receive a head again."""
        while self._body is not None and self._got == len(self._body):
            sent, body = self._sent, self._body
            self._sent, self._body, self._got = None, None, 0
            if sent is not None:
                return [_arrived(sent, body)]
            message = self._decoder.decode(body)
            if not isinstance(message, Sent):
                return [Arrived(message)]
            self._receive(message, body[:0])
        return []

    def _cut(self) -> list[Arrived]:
        """Cut the head into messages; leave the rest for the next call."""
        arrived: list[Arrived] = []
        at, stop = 0, self._have
        with memoryview(self._head) as head:
            while self._body is None and stop - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(head, at)
                if length > LARGEST:
                    raise ValueError(f"a message of {length} bytes, where {LARGEST} are the most")
                start = at + _LENGTH.size
                if length > HEAD - _LENGTH.size:
                    at = self._begin(self._take(length).data, head[start:stop]) + start
                elif start + length > stop:
                    break
                else:
                    at = start + length
                    message = self._decoder.decode(head[start:at])
                    if isinstance(message, Sent):
                        at += self._receive(message, head[at:stop])
                    else:
                        arrived.append(Arrived(message))
                arrived += self._complete()
        self._head[: stop - at] = self._head[at:stop]
        self._have = stop - at
        return arrived

    def _receive(self, message: Sent, there: memoryview) -> int:
        """Begin to receive the payloads of *message*; return how many of them are *there*."""
        for frame in message.frames:
            check_header(frame.header)
            if frame.nbytes < 0:
                raise ValueError(f"a payload of {frame.nbytes} bytes")
        places = _places(message)
        nbytes = places[-1][1] if places else 0
        if nbytes > LARGEST:
            raise ValueError(f"payloads of {nbytes} bytes, where {LARGEST} are the most")
        self._sent = message
        return self._begin(self._take(nbytes).data if nbytes else _EMPTY, there)

    def _begin(self, body: memoryview, there: memoryview) -> int:
        """Begin to fill *body* with what is *there*; return how much of it belongs to *body*."""
        self._body, self._got = body, min(len(there), len(body))
        body[: self._got] = there[: self._got]
        return self._got


def _arrived(sent: Sent, body: memoryview) -> Arrived:
    whole = body.toreadonly()
    return Arrived(sent, tuple(whole[start:stop] for start, stop in _places(sent)))


def _places(sent: Sent) -> list[tuple[int, int]]:
    return payload_places(frame.nbytes for frame in sent.frames)

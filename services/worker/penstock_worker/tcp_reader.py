"""A reader on another host: frames go from their runner's memory to its connection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from penstock.protocol.data import FrameHeader
from penstock.transport.link_messages import GiveBack, Mapped, Sent, SentFrame
from penstock.transport.payload_places import ALIGNMENT, payload_places
from penstock_worker.linked_reader import LinkedReader, Messages, Outgoing
from penstock_worker.reply_form import Payload
from penstock_worker.runner.messages import FrameReady

SMALL = 1 << 14
"""Frames of fewer bytes are copied: that costs less than a loan and a piece of their own."""

_ZEROS = memoryview(bytes(ALIGNMENT))


class RemoteReader(LinkedReader):
    """One reader's TCP connection; see `LinkedReader`.

    A frame is lent to the connection until the system has its bytes.
    """

    borrows: ClassVar[bool] = False

    def _frames(
        self, stream: int, frames: Sequence[tuple[FrameHeader, FrameReady]], payload: Payload
    ) -> Messages:
        message = Sent(stream, tuple(SentFrame(header, frame.nbytes) for header, frame in frames))
        bodies: list[memoryview] = []
        loans: list[int] = []
        before = 0
        places = payload_places(frame.nbytes for _, frame in frames)
        for (_, frame), (start, stop) in zip(frames, places, strict=True):
            if start > before:
                bodies.append(_ZEROS[: start - before])
            before = stop
            if frame.nbytes >= SMALL and self._runners.runner_of(frame) is not None:
                loans.append(self._runners.lend(self._borrower, frame).number)
                bodies.append(payload(frame))
            else:
                bodies.append(memoryview(bytes(payload(frame))))
        return [Outgoing(message, tuple(bodies), tuple(loans))]

    def _send(self, message: Outgoing) -> None:
        over = partial(self._runners.give_back, self._borrower, message.loans)
        sent = over if message.loans else None
        self._line.send(message.message, bodies=message.bodies, sent=sent)

    def _hear_of_memory(self, _message: Mapped | GiveBack) -> None:
        self.close()  # nothing was lent to it

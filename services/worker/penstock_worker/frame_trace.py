"""Recent events of frames, recorded while a client asks for them."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from penstock.protocol.calls import TraceReply
from penstock.protocol.data import (
    FrameHeader,
    FrameSent,
    FrameTaken,
    FrameTimes,
    Subscribe,
    TraceEvent,
    encode_events,
)
from penstock_worker.core.events import StreamId
from penstock_worker.runner.messages import FrameReady

ASKED_FOR = 3.0
"""Seconds for which events are recorded after a client asked for them."""

KEPT = 1 << 15
"""How many events (some MB), and how many frames' times of arrival, are kept."""


class FrameTrace:
    """The last events of a worker's frames; none are recorded if no client has asked lately."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._clock, self._now = clock, now
        self._until = float("-inf")
        self._next = 0
        """The number of the next event, from which a client continues."""
        self._events: deque[TraceEvent] = deque(maxlen=KEPT)
        self._arrived: OrderedDict[tuple[int, int], float] = OrderedDict()
        self._streams: dict[StreamId, Subscribe] = {}

    @property
    def on(self) -> bool:
        """Whether events are recorded."""
        if self._until < 0:
            return False
        if self._clock() < self._until:
            return True
        self._until = float("-inf")
        self._events.clear()
        self._arrived.clear()
        return False

    def since(self, after: int) -> TraceReply:
        """Return the events from number *after* on, and record those of the next seconds.

        If *after* is below 0, begin with the next event: earlier ones were for another client.
        """
        if not self.on or after < 0:
            after = self._next
        self._until = self._clock() + ASKED_FOR
        first = self._next - len(self._events)
        start = min(max(after, first), self._next)
        chosen = islice(self._events, start - first, None)
        return TraceReply(encode_events(chosen), self._next, max(0, start - after))

    def opened(self, stream: StreamId, request: Subscribe) -> None:
        """Note which reader a stream belongs to."""
        self._streams[stream] = request

    def closed(self, stream: StreamId) -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)

    def arrived(self, frame: FrameReady) -> None:
        """Note that a runner has made *frame*."""
        if self.on:
            self._arrived[frame.run, frame.first] = self._now()
            if len(self._arrived) > KEPT:
                self._arrived.popitem(last=False)

    def sent(
        self, stream: StreamId, header: FrameHeader, frame: FrameReady
    ) -> tuple[FrameHeader, FrameReady]:
        """Note that a part of *frame* is sent; return what to send, which asks for an answer."""
        request, elements = self._streams.get(stream), len(header.ranges)
        if request is None or not elements:
            return header, frame
        whose = (header.task, header.attempt, frame.run, request.reader)
        what = (header.ranges.spans[0][0], elements, frame.nbytes, frame.codec.value)
        arrived = self._arrived.get((frame.run, frame.first), frame.written)
        made = (frame.began, frame.full, frame.placed, frame.written)
        self._record(FrameSent(*whose, *what, *made, arrived, self._now()))
        return replace(header, traced=True), frame

    def taken(self, stream: StreamId, traced: Iterable[FrameTimes]) -> None:
        """Note a reader's times of frames that it was sent."""
        request = self._streams.get(stream)
        if request is not None and self.on:
            for times in traced:
                self._record(FrameTaken(request.task, request.attempt, request.reader, times))

    def _record(self, event: TraceEvent) -> None:
        self._events.append(event)
        self._next += 1

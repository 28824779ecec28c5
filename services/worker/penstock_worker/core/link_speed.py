"""How fast the link to a task's readers is, so that AUTO knows what a byte costs there.

gRPC says when it has taken a message. While it takes most of the time, the link is full and its
speed is what it takes. Otherwise it is at least that fast, and how much faster nobody knows: what
was measured before is believed a little less each second. So frames that became small enough for a
link do not make it look like a fast one.

Readers that borrow frames need no link: while there are no others, nothing pays.
"""

from __future__ import annotations

from penstock.frames.codec_choice import FAST_LINK, SHARED_MEMORY_LINK
from penstock.protocol.types import Codec
from penstock_worker.core.events import Effect, SendToRunner, StreamId, StreamWritable
from penstock_worker.runner.messages import SetLink

WINDOW = 1.0
"""Seconds over which it is measured."""

FULL = 0.5
"""A link is full that takes messages for more than this part of the time."""

EASE = 1.02
"""By so much it is taken to be faster after each window in which it was not full."""

TOLD = 1.25
"""A runner is told of a link that has become faster or slower by so much."""


class LinkSpeed:
    """The link of one attempt's readers, all together."""

    def __init__(self, now: float) -> None:
        self.speed = FAST_LINK
        """Bytes a second; a link is taken to be fast until it is full."""
        self._since = now
        self._nbytes = 0
        self._busy: dict[StreamId, float] = {}
        self._told = FAST_LINK
        self._borrowing: set[StreamId] = set()
        self._others: set[StreamId] = set()

    def on_writable(self, event: StreamWritable) -> None:
        """Record what a stream says of its way."""
        if event.borrows:
            self._borrowing.add(event.stream)
        else:
            self._others.add(event.stream)
            self.on_taken(event.stream, event.taken, event.seconds)

    def on_closed(self, stream: StreamId) -> None:
        """Forget a stream."""
        self._borrowing.discard(stream)
        self._others.discard(stream)

    def on_taken(self, stream: StreamId, nbytes: int, seconds: float) -> None:
        """Record that gRPC took *nbytes* of a stream, and *seconds* for it."""
        if nbytes:
            self._nbytes += nbytes
            self._busy[stream] = self._busy.get(stream, 0.0) + seconds

    def on_runner_started(self) -> None:
        """Record that a runner begins, which takes the link to be fast."""
        self._told = FAST_LINK

    def on_tick(self, now: float) -> None:
        """Close the window, when it is over."""
        window = now - self._since
        if window < WINDOW:
            return
        if self._nbytes:
            busy = sum(self._busy.values()) / len(self._busy)
            if busy > FULL * window:
                self.speed = min(FAST_LINK, self._nbytes / busy)
            else:
                least = max(self.speed * EASE, self._nbytes / window)
                self.speed = min(FAST_LINK, least)
        self._since, self._nbytes, self._busy = now, 0, {}

    def tell(self, run: int | None, codec: Codec, out: list[Effect]) -> None:
        """Tell a runner that chooses codecs when the link has become another."""
        if codec is Codec.AUTO and run is not None and (speed := self.news()) is not None:
            out.append(SendToRunner(SetLink(run, speed)))

    def news(self) -> float | None:
        """Return the speed that the runner is to be told now, if it is."""
        alone = self._borrowing and not self._others
        speed = SHARED_MEMORY_LINK if alone else self.speed
        if 1 / TOLD < speed / self._told < TOLD:
            return None
        self._told = speed
        return speed

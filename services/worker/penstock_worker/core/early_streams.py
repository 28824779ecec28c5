"""Readers that come before the assignment of what they want to read: they wait a moment for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from penstock.protocol.data import Subscribe
from penstock.protocol.types import WorkerId
from penstock_worker.core.events import StreamAcked, StreamClosed, StreamId, StreamWritable

PATIENCE = 3.0
"""Seconds that a reader may come before the assignment of its task."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: Subscribe
    until: float


class EarlyStreams:
    """Subscriptions in the order in which they came, with what their readers sent since."""

    def __init__(self) -> None:
        self._waiting: dict[StreamId, _Waiting] = {}

    def __contains__(self, stream: StreamId) -> bool:
        return stream in self._waiting

    def add(self, stream: StreamId, request: Subscribe, until: float) -> None:
        """Keep a subscription, *until* then at most."""
        self._waiting[stream] = _Waiting(request, until)

    def on_event(self, event: StreamAcked | StreamWritable | StreamClosed) -> None:
        """Keep what a reader sends before its stream can be opened: it sends it once."""
        match event:
            case StreamAcked(stream, ack):
                waiting = self._waiting[stream]
                request = replace(
                    waiting.request,
                    acked=waiting.request.acked.union(ack.acked),
                    buffered=waiting.request.buffered - ack.acked,
                    credit=waiting.request.credit + ack.credit,
                )
                self._waiting[stream] = replace(waiting, request=request)
            case StreamClosed(stream):
                del self._waiting[stream]
            case StreamWritable():
                pass  # an open stream asks for a frame anyway
            case _:
                assert_never(event)

    def take_expired(self, now: float) -> list[tuple[StreamId, Subscribe]]:
        """Remove and return those that have waited for too long."""
        expired = [(s, w.request) for s, w in self._waiting.items() if now >= w.until]
        for stream, _ in expired:
            del self._waiting[stream]
        return expired

    def take_all(self) -> list[tuple[StreamId, Subscribe, float]]:
        """Remove and return all, each with the time until which it may wait."""
        taken, self._waiting = self._waiting, {}
        return [(stream, waiting.request, waiting.until) for stream, waiting in taken.items()]


def never_assigned(worker: WorkerId, request: Subscribe) -> str:
    """Return what a reader is told whose task did not come here in time."""
    return (
        f"worker {worker} was not assigned attempt {request.attempt} of task "
        f"{request.task} within {PATIENCE:g} s"
    )

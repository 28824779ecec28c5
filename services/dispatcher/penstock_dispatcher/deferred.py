"""Events that wait while the journal is blocked; of levels only the newest one."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from penstock.errors import StoreFull
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SplitRequest, WorkerHeartbeat
from penstock.protocol.types import ReaderStatus
from penstock_dispatcher.core.events import (
    Called,
    Event,
    FilesOrdered,
    ReaderDisconnected,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.records import IterationRecord

Key: TypeAlias = tuple[object, ...]


class DeferredEvents:
    """Keeps events in the order of their arrival.

    A blocked journal costs no more memory the longer it lasts: a heartbeat replaces the one before,
    a request the same one of before. Ticks are dropped: time without decisions does not count.
    """

    def __init__(self) -> None:
        self._events: dict[Key, Event] = {}

    def defer(self, event: Event) -> None:
        """Keep *event* for later."""
        if isinstance(event, Tick | StartHistory):
            return
        key = _key(event)
        self._events.pop(key, None)
        self._events[key] = event

    def take(self) -> list[Event]:
        """Remove and return all deferred events."""
        events, self._events = list(self._events.values()), {}
        return events

    def drop_calls(self) -> None:
        """Drop calls: they have been replied to."""
        self._events = {k: s for k, s in self._events.items() if not isinstance(s, Called)}


def view_meanwhile(
    heartbeat: ReaderHeartbeat,
    shown: ReaderView | None,
    iteration: IterationRecord | None,
    full: StoreFull | None,
) -> ReaderView | None:
    """Return a view that tells a reader why it waits while nothing can be decided.

    The reader may read the elements that it has. While the journal is full no reader expires; a
    reader that expired before does not get this. *shown* is the last view that it got.
    """
    if full is None or shown is None or iteration is None or heartbeat.leaving:
        return None
    if shown.reader not in iteration.live or shown.status is not ReaderStatus.LIVE:
        return None
    waiting_for = f"room on a disk: {full}"
    return replace(shown, seq=heartbeat.seq, waiting_for=waiting_for, deferred=True)


def _key(event: Event) -> Key:
    if isinstance(event, Called):
        return (type(event), event.call)
    match event:
        case WorkerHeartbeat() | WorkerDisconnected() | WorkerDead():
            return (type(event), event.worker, event.incarnation)
        case SplitRequest():
            return (SplitRequest, event.worker, event.incarnation, event.task, event.provider)
        case ReaderHeartbeat() | ReaderDisconnected():
            return (type(event), event.iteration, event.session)
        case FilesOrdered():
            return (FilesOrdered, event.iteration, event.provider, event.seed)
        case Tick() | StartHistory():
            return (type(event),)

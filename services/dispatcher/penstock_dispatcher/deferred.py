"""Events that wait while the journal is blocked; of levels only the newest one."""

from __future__ import annotations

from typing import TypeAlias

from penstock.protocol.control import ReaderHeartbeat, SplitRequest, WorkerHeartbeat
from penstock_dispatcher.core.events import (
    DrainWorker,
    Event,
    FilesOrdered,
    OpenIteration,
    ReaderDisconnected,
    RegisterDataset,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)

Key: TypeAlias = tuple[object, ...]


class DeferredEvents:
    """Keeps signals in the order of their coming.

    Whoever is waited for costs no more the longer it takes: a beat replaces the one before, a
    question the one that asked the same. Ticks are dropped: time that nobody could use does not
    count.
    """

    def __init__(self) -> None:
        self._signals: dict[Key, Event] = {}

    def hold(self, signal: Event) -> None:
        """Keep *signal* for later."""
        if isinstance(signal, Tick | StartHistory):
            return
        key = _key(signal)
        self._signals.pop(key, None)
        self._signals[key] = signal

    def take(self) -> list[Event]:
        """Return all that is held, and hold it no more."""
        signals, self._signals = list(self._signals.values()), {}
        return signals

    def drop_calls(self) -> None:
        """Forget calls: whoever made them has been answered."""
        calls = RegisterDataset | OpenIteration | DrainWorker
        self._signals = {k: s for k, s in self._signals.items() if not isinstance(s, calls)}


def _key(signal: Event) -> Key:
    match signal:
        case WorkerHeartbeat() | WorkerDisconnected() | WorkerDead():
            return (type(signal), signal.worker, signal.incarnation)
        case SplitRequest():
            return (SplitRequest, signal.worker, signal.incarnation, signal.task, signal.stream)
        case ReaderHeartbeat() | ReaderDisconnected():
            return (type(signal), signal.iteration, signal.token)
        case RegisterDataset() | OpenIteration() | DrainWorker():
            return (type(signal), signal.call)
        case FilesOrdered():
            return (FilesOrdered, signal.iteration, signal.stream, signal.seed)
        case Tick() | StartHistory():
            return (type(signal),)

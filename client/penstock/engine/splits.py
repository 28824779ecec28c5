"""A source's position in split logs, under dynamic sharding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.protocol.splits import Split


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The progress of a source in a pass over its provider's split log."""

    position: int
    """The position of the split being read; of the empty split when the pass is over."""
    had_splits: bool
    """Whether the pass had any split for this task."""
    over: bool


class SplitReader:
    """Draws splits for sources under dynamic sharding: a position in each provider's split log.

    *fetch(provider, position)* waits until the log of *provider* has *position*, and returns the
    split there. Sources that are read in lockstep (by `zip`) share a provider, each at its own
    position. An empty split ends a pass; the next pass begins after it.
    """

    def __init__(self, fetch: Callable[[int, int], Split]) -> None:
        self.fetch = fetch
        self._lock = threading.Lock()
        self._passes: dict[str, SourceProgress] = {}
        self._readers: dict[str, object] = {}

    def enter(self, source: str, provider: int, reader: object) -> int:
        """Return the position at which a new pass of *source* begins; *reader* will read it.

        Its last pass may have left splits unread (before a `take`, or in a `zip` with a shorter
        dataset). These are drawn and dropped, because a pass ends once, for all sources.
        """
        self.resume(source, reader)
        last = self._passes.get(source)
        if last is None:
            return 0
        position = last.position
        while not last.over and self.fetch(provider, position):
            position += 1
        return position + 1

    def resume(self, source: str, reader: object) -> None:
        """Let *reader* be the one that reads *source* from now on."""
        with self._lock:
            self._readers[source] = reader

    def record(self, source: str, reader: object, now: SourceProgress) -> None:
        """Record how far *source* is.

        A thread may still read ahead in a pass that was abandoned; its reports are ignored.
        """
        with self._lock:
            if self._readers.get(source) is reader:
                self._passes[source] = now

    def passes(self, path: str) -> dict[str, SourceProgress]:
        """Return how far each source at and below *path* is."""
        below = f"{path}."
        with self._lock:
            return {
                source: now
                for source, now in self._passes.items()
                if source == path or source.startswith(below)
            }

"""How many bytes a cached task's frames may take, and what its runner is told of that.

A job's cache on a worker is shared equally among its attempts there. A runner may fill an attempt's
share with what trainers have had; ahead of the fastest of them it makes no more than that of an
ordinary task.
"""

from __future__ import annotations

from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.runner.messages import FrameReady, SetWindow

STEPS = 8
"""A runner is told of more room once that is one in so many of the bytes that it may be ahead."""


class CacheRoom:
    """The room of the frames in *cache*: *nbytes*, of which a runner may be *ahead* so many."""

    def __init__(self, cache: SharedCache, nbytes: int, ahead: int) -> None:
        self.nbytes = nbytes
        self._cache, self._ahead = cache, ahead
        self._granted = 0
        self._elsewhere = 0
        """The bytes of the frames here of runs that are over."""
        self._told: SetWindow | None = None

    def resize(self, nbytes: int) -> list[FrameReady]:
        """Set the room; evict and return what has no place in it."""
        self.nbytes = nbytes
        return self._cache.trim(nbytes)

    def on_runner_lost(self) -> None:
        """Record that all that is here is of a run that is over."""
        self._elsewhere = self._cache.nbytes

    def on_evicted(self, frames: list[FrameReady], run: int | None) -> None:
        """Record that *frames* have left the window, of which *run* is the present run."""
        self._elsewhere -= sum(frame.nbytes for frame in frames if frame.run != run)

    def is_full(self) -> bool:
        """Return whether a runner that waits for room has been given all there is."""
        return self._granted >= self.nbytes

    def start(self, run: int) -> SetWindow:
        """Return the window that a new *run* begins with."""
        self._grant(waits=False)
        self._told = SetWindow(run, self._granted, self._elsewhere)
        return self._told

    def change(self, run: int, *, waits: bool) -> SetWindow | None:
        """Return what to tell *run*, which may wait for room; None if it knows enough."""
        self._grant(waits=waits)
        window, told = SetWindow(run, self._granted, self._elsewhere), self._told
        if told is not None and window.elsewhere == told.elsewhere:
            grown = window.nbytes - told.nbytes
            enough = waits or self.is_full() or grown >= self._ahead // STEPS
            if grown == 0 or (grown > 0 and not enough):
                return None
        self._told = window
        return window

    def _grant(self, *, waits: bool) -> None:
        cache = self._cache
        granted = max(self._granted, cache.nbytes - cache.ahead + self._ahead)
        if waits and cache.starving and granted == self._granted:
            granted += self._ahead  # what comes next is large
        self._granted = min(granted, self.nbytes)

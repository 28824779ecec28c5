"""How many bytes a cached task's frames may take, and when its runner is told.

A job's cache on a worker is divided equally among its attempts there. A runner may fill an
attempt's share with elements that trainers have had. Ahead of the fastest trainer, it produces no
more than for an ordinary task.
"""

from __future__ import annotations

from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.runner.messages import FrameReady, SetWindow

STEPS = 8
"""A runner is told of more room once that is 1/STEPS of the bytes that it may be ahead."""


class CacheRoom:
    """The room for the frames in *cache*: *nbytes*; a runner may be *ahead* bytes ahead."""

    def __init__(self, cache: SharedCache, nbytes: int, ahead: int) -> None:
        self.nbytes = nbytes
        self._cache, self._ahead = cache, ahead
        self._granted = 0
        self._elsewhere = 0
        """The bytes of frames here from runs that are over."""
        self._told: SetWindow | None = None

    def resize(self, nbytes: int) -> list[FrameReady]:
        """Set the room; evict and return the frames that do not fit."""
        self.nbytes = nbytes
        return self._cache.trim(nbytes)

    def on_runner_lost(self) -> None:
        """Record that all frames here come from runs that are over."""
        self._elsewhere = self._cache.nbytes

    def on_evicted(self, frames: list[FrameReady], run: int | None) -> None:
        """Record that *frames* have left the window, of which *run* is the present run."""
        self._elsewhere -= sum(frame.nbytes for frame in frames if frame.run != run)

    def is_full(self) -> bool:
        """Return whether a runner that waits for room has been given all of it."""
        return self._granted >= self.nbytes

    def start(self, run: int) -> SetWindow:
        """Return the window that a new *run* begins with."""
        self._grant(waits=False)
        self._told = SetWindow(run, self._granted, self._elsewhere)
        return self._told

    def change(self, run: int, *, waits: bool) -> SetWindow | None:
        """Return a new window for *run*, which may wait for room; None if it needs none."""
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
            granted += self._ahead  # the next frame is large
        self._granted = min(granted, self.nbytes)

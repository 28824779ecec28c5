"""When the frames of a session were here, of those that a worker asks about."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from penstock.protocol.trace import FrameTimes


class ReaderTrace:
    """When the frames of a session that are traced were here: told to their worker with an ack."""

    def __init__(self, now: Callable[[], float] = time) -> None:
        self.now = now
        self._told: dict[int, list[FrameTimes]] = {}

    def note(self, task: int, times: FrameTimes) -> None:
        """Note that a frame of *task* was handed out; the loop's thread."""
        self._told.setdefault(task, []).append(times)

    def of(self, task: int) -> tuple[FrameTimes, ...]:
        """Return what was noted of *task* since the last call; any thread."""
        # In one step, so that what another thread notes now is not lost.
        return tuple(self._told.pop(task, ())) if self._told else ()

"""How many bytes of frames a task may keep that readers have not acked.

A job has *room* for so many on a worker, which tasks that fill its slots share. All jobs' together
have a *total*: where that is less than their rooms, tasks have equal parts of it. The part is
rounded down to a power of two, so that it changes seldom when tasks come and go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetRoom

if TYPE_CHECKING:
    from penstock_worker.core.attempt import Attempt

LEAST = 4 << 20
"""Bytes that a task has in any case: with less it would stop at each frame."""


class BufferRoom:
    """The bytes for one attempt, and what its runner knows of that: *usual*, unless it is told."""

    def __init__(self, usual: int) -> None:
        self.usual = self.nbytes = self._told = max(1, usual)

    def on_runner_started(self) -> int:
        """Return what a new runner begins with."""
        self._told = self.nbytes
        return self.nbytes

    def resize(self, most: int, run: int | None, out: list[Effect]) -> None:
        """Have it be *most*, or what is usual if that is less; tell the runner of *run*."""
        self.nbytes = min(self.usual, most)
        if run is not None and self.nbytes != self._told:
            self._told = self.nbytes
            out.append(SendToRunner(SetRoom(run, self.nbytes)))


def divide(attempts: Collection[Attempt], total: int, out: list[Effect]) -> None:
    """Divide *total* bytes among those of *attempts* that are of no cached job."""
    sharing = [attempt for attempt in attempts if attempt.cache_room is None]
    part = total // (len(sharing) or 1)
    most = max(LEAST, 1 << max(0, part.bit_length() - 1))
    for attempt in sharing:
        attempt.buffer.resize(most, attempt.run, out)

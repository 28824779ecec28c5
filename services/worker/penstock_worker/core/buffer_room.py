"""How many bytes of frames a task may keep that readers have not acked.

A job has *room* for so many on a worker, which tasks that fill its slots share. All jobs' together
have a *total*: where that is less than their rooms, tasks have equal parts of it. The part is
rounded down to a power of two, so that it changes seldom when tasks come and go.

A task begins with a share of its part only, and has twice as much each time that readers have
emptied what it had filled. Else the first of many jobs, whose part is large while they are few,
would fill that in a moment, and keep it for the minutes that slow readers take to read it.
"""

from __future__ import annotations

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetRoom

LEAST = 4 << 20
"""Bytes that a task has in any case: with less it would stop at each frame."""

EARLY = 8
"""Of its part a task begins with one in so many. Where n tasks come one by one and none is read,
they fill a total / EARLY * (1 + 1/2 + ... + 1/n), which is less than it for a thousand."""


class BufferRoom:
    """The bytes for one attempt, and what its runner knows of that: *usual*, unless it is told."""

    def __init__(self, usual: int) -> None:
        self.usual = self.nbytes = self._told = self._part = max(1, usual)
        self._wanted: int | None = None
        self._filled = 0
        """How many bytes were kept when it was full."""

    def on_runner_started(self) -> int:
        """Return what a new runner begins with."""
        self._told = self.nbytes
        return self.nbytes

    def resize(self, part: int, run: int | None, out: list[Effect]) -> None:
        """Have it be *part* of the total at most; tell the runner of *run*."""
        self._part = part
        self._settle(part // EARLY if self._wanted is None else self._wanted, run, out)

    def on_kept(self, nbytes: int, run: int | None, out: list[Effect], *, waits: bool) -> None:
        """Note that *nbytes* are kept: a room that was filled and is empty grows.

        It is full also where the runner *waits* for room: small frames take more than they have.
        """
        # Half and a quarter, so that it need not be seen at the very moment.
        if waits or 2 * nbytes >= self.nbytes:
            self._filled = max(self._filled, nbytes)
        if not self._filled or 4 * nbytes > min(self.nbytes, 2 * self._filled):
            return
        if self.nbytes < min(self.usual, self._part):
            self._filled = 0
            self._settle(2 * self.nbytes, run, out)

    def _settle(self, wanted: int, run: int | None, out: list[Effect]) -> None:
        self._wanted = wanted
        self.nbytes = min(self.usual, self._part, max(LEAST, wanted))
        if run is not None and self.nbytes != self._told:
            self._told = self.nbytes
            out.append(SendToRunner(SetRoom(run, self.nbytes)))

"""How many bytes of frames a task may keep that readers have not acked.

A job has *room* bytes on a worker; tasks that fill its slots share them. All jobs together have
*total* bytes. If that is less than the sum of their rooms, tasks have equal parts of the total. A
part is rounded down to a power of two, so that it seldom changes when tasks come and go.

A task begins with a share of its part, which doubles each time that readers have emptied it.
Otherwise the first of many jobs would quickly fill its part, which is large while there are few
jobs. Slow readers might need minutes to empty it.
"""

from __future__ import annotations

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetRoom

LEAST = 4 << 20
"""Bytes that a task always has: with less it would stop at each frame."""

EARLY = 8
"""A task begins with 1/EARLY of its part. If n tasks come one by one and none is read, they fill
total / EARLY * (1 + 1/2 + ... + 1/n), which is less than the total even for a thousand tasks."""


class BufferRoom:
    """The bytes for one attempt, and the number that its runner knows: *usual* until it is told."""

    def __init__(self, usual: int) -> None:
        self.usual = self.nbytes = self._told = self._part = max(1, usual)
        self._wanted: int | None = None
        self._filled = 0
        """How many bytes were kept when the room was full."""

    def on_runner_started(self) -> int:
        """Return the bytes that a new runner begins with."""
        self._told = self.nbytes
        return self.nbytes

    def resize(self, part: int, run: int | None, out: list[Effect]) -> None:
        """Limit the room to *part* of the total; tell the runner of *run*."""
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

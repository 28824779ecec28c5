"""What one attempt may use of its worker: bytes for its frames, and processes.

`BufferRoom` is for elements that readers have not acked. A job has *room* bytes on a worker; tasks
that fill its slots share them. All jobs together have *total* bytes. If that is less than the sum
of their rooms, tasks have equal parts of the total. A part is rounded down to a power of two, so
that it seldom changes when tasks come and go. A task begins with a share of its part, which doubles
each time that readers have emptied it. Otherwise the first of many jobs would quickly fill its
part, which is large while there are few jobs. Slow readers might need minutes to empty it.

`CacheRoom` is for the window of a cached task. A job's cache on a worker is divided equally among
its attempts there. A runner may fill an attempt's share with elements that trainers have had. Ahead
of the fastest trainer, it produces no more than for an ordinary task.

`SlotShare` is how many processes may call a task's functions: its job's part of the worker's slots.
A task that fills a slot has one slot. Any other task is the only one of its job here, and gets all
slots of the job. Active jobs have equal parts, and the first of them gets the remainder. A job is
active if it has not ended, and has readers or has not had any yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.protocol.types import WorkerId
from penstock_worker.core.counters import WorkerCounters
from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.runner.messages import FrameReady, SetProcesses, SetRoom, SetWindow

A = TypeVar("A")

LEAST = 4 << 20
"""Bytes that a task always has: with less it would stop at each frame."""

EARLY = 8
"""A task begins with 1/EARLY of its part. If n tasks come one by one and none is read, they fill
total / EARLY * (1 + 1/2 + ... + 1/n), which is less than the total even for a thousand tasks."""


@dataclass(frozen=True, slots=True)
class AttemptConfig(Generic[A]):
    """What all attempts of a worker share. Of each job, *room* bytes may be kept.

    Tasks that fill its *slots* have equal parts of that. Those of a cached job may keep *cache*
    bytes together.
    """

    worker: WorkerId
    room: int
    cache: int
    slots: int
    counters: WorkerCounters
    name_run: Callable[[A], int]
    """Returns the number of an attempt's next run."""


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


class SlotShare:
    """The slots of one attempt, and the number that its runner knows; a runner begins with one."""

    def __init__(self) -> None:
        self.slots = self._told = 1
        self._was_read = False

    def is_left(self, *, read: bool) -> bool:
        """Return whether all its readers have left; *read* says whether it has readers now."""
        self._was_read = self._was_read or read
        return self._was_read and not read

    def on_runner_started(self, run: int, out: list[Effect]) -> None:
        """Tell a new runner, which begins with one slot, its slots."""
        self._told = 1
        self.tell(run, out)

    def tell(self, run: int | None, out: list[Effect]) -> None:
        """Tell the runner of *run* its slots, if they have changed."""
        if run is not None and self.slots != self._told:
            self._told = self.slots
            out.append(SendToRunner(SetProcesses(run, self.slots)))

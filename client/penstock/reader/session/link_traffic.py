"""What came from each worker, and how fast of late."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from penstock.protocol.data import FrameHeader
from penstock.protocol.loop_time import LinkTraffic
from penstock.protocol.types import Codec, WorkerId
from penstock.reader.core.task_stream import NOTHING_HELD, Held

SPAN, SAMPLES = 1.0, 11
"""Marks are at least so many seconds apart, and so many are kept."""

WINDOW = 10.0
"""A rate is that of about so many seconds up to now, as a loop's wait."""


class LinkMeter:
    """Counts bytes by worker: in the event loop; any thread may ask for the sums."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[WorkerId, _Link] = {}

    def note(self, worker: WorkerId, frames: Sequence[tuple[FrameHeader, memoryview]]) -> None:
        """Count the frames of one message of *worker*."""
        link = self._links.get(worker)
        if link is None:
            link = self._links[worker] = _Link()
        now = self._clock()
        if not link.marks or now - link.marks[-1][0] >= SPAN:
            link.marks.append((now, link.nbytes))
        for frame, payload in frames:
            link.nbytes += payload.nbytes
            link.raw_nbytes += frame.raw_nbytes or payload.nbytes
            link.codec = frame.codec
        link.frames += len(frames)
        link.last = now

    def traffic(
        self, transports: Mapping[str, str], held: Mapping[WorkerId, Held]
    ) -> tuple[LinkTraffic, ...]:
        """Return what came of each worker that is read now, the most first.

        *held* says how much of that the loop has not had.
        """
        now, found = self._clock(), list[LinkTraffic]()
        for worker, link in tuple(self._links.items()):
            if worker not in transports:
                continue
            began, before = link.mark(now - WINDOW)
            rate = (link.nbytes - before) / max(now - began, SPAN / SAMPLES)
            here = held.get(worker, NOTHING_HELD)
            traffic = LinkTraffic(
                worker=worker,
                transport=transports[worker],
                frames=link.frames,
                nbytes=link.nbytes,
                raw_nbytes=link.raw_nbytes,
                rate=rate,
                compression=link.codec.value,
                held=here.nbytes,
                room=here.room,
            )
            found.append(traffic)
        return tuple(sorted(found, key=_nbytes, reverse=True))


class _Link:
    """The sums of one worker."""

    __slots__ = ("codec", "frames", "last", "marks", "nbytes", "raw_nbytes")

    def __init__(self) -> None:
        self.frames = self.nbytes = self.raw_nbytes = 0
        self.codec = Codec.NONE
        self.marks: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        """When a span began, with the bytes up to then."""
        self.last = 0.0
        """When the newest frame came."""

    def mark(self, since: float) -> tuple[float, int]:
        """Return the newest mark that is not after *since*, or else the oldest."""
        if self.last <= since:
            return since, self.nbytes
        return next((mark for mark in reversed(self.marks) if mark[0] <= since), self.marks[0])


def _nbytes(link: LinkTraffic) -> int:
    return link.nbytes

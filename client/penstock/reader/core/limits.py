"""Bounds on the elements that are buffered or on their way to one reader.

A reader that reads tasks in order has limits of its own. Elements of later tasks wait for the first
task that may have more. So the first task always has room, and the others share the rest. However
many tasks there are, they fill no more than the limit. The dispatcher counts tasks that readers do
not have, and creates no others meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from penstock.protocol.types import TaskId
from penstock.reader.core.task_stream import TaskStream

MIN_WINDOW = 1 << 20
"""Credit in bytes that each task has at least: about a frame."""

REQUEST_PATIENCE = 1.0
"""Seconds after which a request that a task did not answer is not counted, while the loop has
nothing: so a stuck worker does not keep the others from being read."""


Streams: TypeAlias = Mapping[TaskId, TaskStream]


class Limit(Protocol):
    """A bound on the elements that are buffered or on their way."""

    def initial_credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """Return the credit that a new subscription begins with, and set the stream's window."""
        ...

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """Return the credit that may be given now."""
        ...

    def urgent(self, stream: TaskStream, credit: int) -> bool:
        """Return whether *credit* is to be sent at once."""
        ...


class ByteLimit:
    """A limit in bytes for all tasks, divided among them; at least a frame for each."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def initial_credit(self, stream: TaskStream, streams: Streams, now: float) -> int:  # noqa: ARG002
        """See `Limit.initial_credit`."""
        readable = sum(o.readable for o in streams.values())
        stream.window = max(self.nbytes // max(1, readable), MIN_WINDOW)
        return max(0, stream.window - stream.nbytes)

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        return max(0, stream.window - stream.nbytes - stream.balance)

    def urgent(self, stream: TaskStream, credit: int) -> bool:
        """See `Limit.urgent`."""
        return 2 * credit >= stream.window


class FrameLimit:
    """A limit in frames for all tasks. A balance of one byte asks a worker for one frame."""

    def __init__(self, frames: int) -> None:
        self.frames = frames

    def initial_credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """See `Limit.initial_credit`."""
        stream.balance = 0
        return int(self._free(streams, now) > 0)

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """See `Limit.credit`."""
        if stream.balance > 0:
            return 0
        if stream.awaited:  # frames of other tasks wait for it, so they do not make room
            return 1 - stream.balance
        if self._free(streams, now) <= 0:
            return 0
        waiting = (s for s in streams.values() if s.streaming and s.balance <= 0)
        first = min(_turn(other, now) for other in waiting)
        return 1 - stream.balance if _turn(stream, now) <= first else 0

    def urgent(self, stream: TaskStream, credit: int) -> bool:  # noqa: ARG002
        """See `Limit.urgent`."""
        return credit > 0

    def _free(self, streams: Streams, now: float) -> int:
        idle = not any(stream.slices for stream in streams.values())
        free = self.frames
        for stream in streams.values():
            free -= len(stream.slices)
            stuck = idle and now >= stream.credit_at + REQUEST_PATIENCE
            if stream.streaming and stream.balance > 0 and not stuck:
                free -= 1
        return free


def _turn(stream: TaskStream, now: float) -> tuple[int, float]:
    """Return a task's turn for credit: one that waits long first, then by preference."""
    late = now >= stream.credit_at + REQUEST_PATIENCE
    return -1 if late else stream.rank, stream.credit_at


class TaskFrameLimit:
    """A limit in frames, divided among the tasks: each task always has room for one frame.

    Consumers of coordinated reads need that room, because an awaited frame must always fit.
    """

    def __init__(self, frames: int) -> None:
        self.frames = frames

    def initial_credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """See `Limit.initial_credit`."""
        stream.balance = 0
        return self.credit(stream, streams, now)

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        if stream.balance > 0:
            return 0
        here = len(stream.slices)
        if here:  # else there is room for one, among however many tasks, which are not counted
            readable = sum(o.readable for o in streams.values())
            if here >= max(1, self.frames // max(1, readable)):
                return 0
        return 1 - stream.balance

    def urgent(self, stream: TaskStream, credit: int) -> bool:  # noqa: ARG002
        """See `Limit.urgent`."""
        return credit > 0


class InOrderByteLimit(ByteLimit):
    """A limit in bytes for all tasks."""

    def initial_credit(self, stream: TaskStream, streams: Streams, now: float) -> int:
        """See `Limit.initial_credit`."""
        stream.balance = 0
        open_now = sum(one.readable and not one.all_sent for one in streams.values())
        stream.window = max(self.nbytes // max(1, open_now), MIN_WINDOW)
        return self.credit(stream, streams, now)

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        wanted = stream.window - stream.nbytes - stream.balance
        if wanted <= 0 or (stream.all_sent and stream.balance > 0):
            return 0
        if stream.task == _first(streams):
            return wanted
        return max(0, min(wanted, self.nbytes - sum(map(_nbytes, streams.values()))))


class InOrderFrameLimit(TaskFrameLimit):
    """A limit in frames for all tasks. A balance of one byte asks a worker for one frame."""

    def credit(self, stream: TaskStream, streams: Streams, now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        if stream.balance > 0:
            return 0
        if stream.task == _first(streams):
            room = len(stream.slices) < self.frames
        else:
            room = sum(map(_frames, streams.values())) < self.frames
        return 1 - stream.balance if room else 0


def _first(streams: Streams) -> TaskId | None:
    """Return the first task that may send more."""
    return min((task for task, one in streams.items() if not one.exhausted), default=None)


def _nbytes(stream: TaskStream) -> int:
    """Return the bytes that are buffered or on their way."""
    on_its_way = stream.balance if stream.streaming and not stream.all_sent else 0
    return stream.nbytes + max(0, on_its_way)


def _frames(stream: TaskStream) -> int:
    on_its_way = stream.streaming and stream.balance > 0 and not stream.all_sent
    return len(stream.slices) + on_its_way

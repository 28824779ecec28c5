"""Buffer limits of a reader that reads tasks in order: the first task has room before others.

Elements of later tasks wait for the first task that may have more. So the first task always has
room, and the others share the rest. However many tasks there are, they fill no more than the limit.
The dispatcher counts tasks that readers do not have, and creates no others meanwhile.
"""

from __future__ import annotations

from penstock.protocol.types import TaskId
from penstock.reader.core.flow_control import MIN_WINDOW, ByteLimit, Streams, TaskFrameLimit
from penstock.reader.core.task_stream import TaskStream


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

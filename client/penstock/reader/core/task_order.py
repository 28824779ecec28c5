"""Which task's elements are next, and what is raised on the way: as they come, or in order.

In order, a task's elements are handed out when those of all tasks before it are with readers. Tasks
are numbered in the order in which they were created, which is that of their splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.protocol.types import TaskId
from penstock.reader.core.deliveries import Replay
from penstock.reader.core.task_stream import TaskStream, next_ready, raise_new


class TaskOrder(Protocol):
    """How a reader chooses among the tasks that it reads."""

    def next(self) -> TaskStream | None:
        """Return the task whose elements are next, if they are here."""
        ...

    def raise_new(self, now: float) -> None:
        """Raise what happened to a task behind the last of its elements, once for each task."""
        ...

    def drop(self, task: TaskId) -> None:
        """Record that *task* is over, and that nothing of it is here or unacked."""
        ...


class AsTheyCome:
    """What came first, of the preferred workers, is next; before all, what is to be replayed."""

    def __init__(self, streams: dict[TaskId, TaskStream], replay: Replay) -> None:
        self._streams, self._replay = streams, replay
        self._awaited: TaskStream | None = None

    def next(self) -> TaskStream | None:
        """See `TaskOrder.next`."""
        if self._awaited is not None:
            self._awaited.awaited, self._awaited = False, None
        if self._streams and (run := self._replay.next) is not None:
            stream = self._streams.get(TaskId(run[0]))
            if stream is not None and not stream.slices and not stream.exhausted:
                stream.awaited, self._awaited = True, stream
                return None
            if stream is not None and stream.slices and stream.slices[0].start == run[1]:
                return stream
            self._replay.give_up()
        return next_ready(self._streams.values())

    def raise_new(self, now: float) -> None:
        """See `TaskOrder.raise_new`."""
        raise_new(self._streams.values(), now)

    def drop(self, task: TaskId) -> None:
        """Keep it: there are no more tasks than workers."""


class InOrder:
    """The least task is next that may have something."""

    def __init__(self, streams: dict[TaskId, TaskStream]) -> None:
        self._streams = streams
        self._ordered: list[TaskId] = []

    def next(self) -> TaskStream | None:
        """See `TaskOrder.next`."""
        for stream in self._up_to_the_next():
            if stream.slices:
                return stream
        return None

    def raise_new(self, now: float) -> None:
        """See `TaskOrder.raise_new`; of no task before its turn."""
        raise_new(self._up_to_the_next(), now)

    def drop(self, task: TaskId) -> None:
        """Forget it: there are as many tasks as splits."""
        del self._streams[task]
        self._ordered.clear()

    def _up_to_the_next(self) -> Iterator[TaskStream]:
        """Yield tasks in order, up to one with elements or from which some may come."""
        # Streams are added while nobody looks, and there may be a thousand of them.
        if len(self._ordered) != len(self._streams):
            self._ordered = sorted(self._streams)
        for task in self._ordered:
            stream = self._streams[task]
            yield stream
            if stream.slices or not stream.exhausted:
                return


def order_of(
    streams: dict[TaskId, TaskStream], replay: Replay | None = None, *, ordered: bool
) -> TaskOrder:
    """Return how to choose among *streams*. In order, a *replay* comes first by itself."""
    return InOrder(streams) if ordered else AsTheyCome(streams, replay or Replay())

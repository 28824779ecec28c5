"""Which tasks a heartbeat reports on: with a thousand tasks it does not report on all of them.

A task's worker reports all that it hears from this reader. So a heartbeat contains the tasks that
no worker runs, because their next attempt waits for the report. It contains the tasks whose worker
this reader does not reach. It also contains tasks with news that the dispatcher has not answered:
all of them if the worker does not hear this reader now, else a few in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from penstock.protocol.control import ReaderView, TaskReport
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.types import TaskId
from penstock.reader.core.task_stream import TaskStream

IN_TURN = 16
"""Number of tasks that a heartbeat reports although their workers do: all, if tasks are few. Such a
report counts only if a worker and a reader of it are lost before the worker's next heartbeat."""

UNANSWERED = 8
"""Number of unanswered heartbeats whose reports are kept; older ones count as lost."""

Told: TypeAlias = tuple[AckedSet, RangeSet]
"""The acked and buffered elements reported of a task."""

NOTHING: Told = (NOTHING_ACKED, NO_RANGES)


class TaskReports:
    """The dispatcher's knowledge of *streams*: the contents of the heartbeats that it answered."""

    def __init__(self, streams: Mapping[TaskId, TaskStream]) -> None:
        self._streams = streams
        self.in_turn = IN_TURN
        self._life = 0
        """Which life of the dispatcher is told; 0 if it wants all tasks in each heartbeat."""
        self._unanswered: dict[int, dict[TaskId, Told]] = {}
        self._answered: dict[TaskId, Told] = {}
        """For each task, the newest report that the dispatcher answered."""
        self._told_in: dict[TaskId, int] = {}
        """In which heartbeat each task was last."""

    @property
    def unacked(self) -> int:
        """How many elements this reader has, of all tasks, that are not acked."""
        return sum(len(stream.buffered) for stream in self._streams.values())

    @property
    def owed(self) -> int:
        """How many elements were acked here, as far as neither their workers nor it may know.

        Any thread may ask: the streams are copied in one step.
        """
        return sum(
            len(stream.acked.ranges - self._answered.get(task, NOTHING)[0].ranges)
            for task, stream in tuple(self._streams.items())
            if not stream.flows
        )

    def take(
        self, seq: int, misses: Callable[[TaskStream], bool], *, everything: bool
    ) -> dict[TaskId, TaskReport]:
        """Return what heartbeat *seq* reports: of all tasks if *everything* is wanted.

        *misses* says whether the worker of a stream is known to be unreached.
        """
        named = self._all() if everything or not self._life else self._needed(misses)
        for task in named:
            self._told_in[task] = seq
        self._unanswered[seq] = {task: _told(self._streams[task]) for task in named}
        if len(self._unanswered) > UNANSWERED:
            del self._unanswered[min(self._unanswered)]
        return {task: self._streams[task].report() for task in named}

    def on_view(self, view: ReaderView) -> None:
        """Note what the dispatcher has heard: it may be another life of it, which heard nothing."""
        if view.life != self._life:
            self._life = view.life
            self._answered.clear()
        if view.seq is None or view.deferred:
            return
        told = self._unanswered.get(view.seq, {})
        self._unanswered = {n: sent for n, sent in self._unanswered.items() if n > view.seq}
        self._answered.update((task, told[task]) for task in told.keys() & self._streams.keys())

    def drop(self, task: TaskId) -> None:
        """Forget a task that is no more."""
        self._answered.pop(task, None)
        self._told_in.pop(task, None)

    def _all(self) -> list[TaskId]:
        return list(self._streams)

    def _needed(self, misses: Callable[[TaskStream], bool]) -> list[TaskId]:
        named, others = list[TaskId](), list[TaskId]()
        for task, stream in self._streams.items():
            idle = stream.worker is None and stream.listed and not stream.barred
            if idle or misses(stream):
                named.append(task)
            elif not self._is_known(stream):
                (others if stream.flows else named).append(task)
        others.sort(key=lambda task: self._told_in.get(task, 0))
        return named + others[: self.in_turn]

    def _is_known(self, stream: TaskStream) -> bool:
        return self._answered.get(stream.task, NOTHING) == _told(stream)


def _told(stream: TaskStream) -> Told:
    return stream.acked, stream.buffered

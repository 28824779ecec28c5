"""The streams of one consumer, one for each task: they fetch elements ahead of the log."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.control import TaskView
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.nearness import UNKNOWN_WORKER
from penstock.protocol.rounds import ELEMENT_NBYTES, GroupsHeld, GroupsWanted, RoundEntry
from penstock.protocol.types import TaskId
from penstock.reader.core.effects import ReaderEffect, SendHeartbeat
from penstock.reader.core.flow_control import FlowControl, Limit
from penstock.reader.core.group_buffer import GroupBuffer
from penstock.reader.core.membership import Membership
from penstock.reader.core.round_log import RoundLog
from penstock.reader.core.task_stream import FrameElements, FrameSlice, TaskStream


class GroupStreams:
    """The elements of each task that consumer *index* has; adds actions to *effects*."""

    def __init__(
        self,
        index: int,
        log: RoundLog,
        membership: Membership,
        limit: Limit,
        effects: list[ReaderEffect],
    ) -> None:
        self.tasks: dict[TaskId, TaskStream] = {}
        self.flow_control = FlowControl(self.tasks, limit, effects)
        self._index, self._log, self._membership = index, log, membership
        self._effects = effects
        self._buffers: dict[TaskId, GroupBuffer] = {}
        self._refused: dict[TaskId, int | None] = {}
        """Tasks whose worker refused groups, until a view answers a heartbeat after this one; None
        if the groups were requested again since."""
        self._arrivals = 0

    @property
    def held(self) -> tuple[GroupsHeld, ...]:
        """The reports of all tasks."""
        return tuple(buffer.held for buffer in self._buffers.values() if buffer.stream.attempt)

    @property
    def refetched(self) -> bool:
        """Whether released groups came again, which may be needed or not."""
        return any(buffer.refetched for buffer in self._buffers.values())

    def here(self, entry: RoundEntry) -> FrameSlice | None:
        """Return the element of a round, if it is here."""
        buffer = self._buffers.get(entry.task)
        return None if buffer is None else buffer.get(entry.group)

    def discard(self, piece: FrameSlice) -> None:
        """Drop an element: it is handed out."""
        self._buffers[piece.frame.task].discard(piece.frame.group)

    def let_go(self) -> None:
        """Drop all elements: none will be handed out."""
        for buffer in self._buffers.values():
            buffer.let_go()

    def keep_wanted(self) -> None:
        """Drop released elements that will not be handed out."""
        wanted = self._wanted()
        for task, buffer in self._buffers.items():
            buffer.keep(wanted.get(task, ()))

    def receive(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> bool:
        """Keep an element, if its attempt and subscription are the current ones.

        Return whether more is held than before.
        """
        stream = self.tasks.get(frame.task)
        if stream is None or not stream.streaming or frame.subscription != stream.subscription:
            return False
        if frame.attempt != stream.attempt:
            return False
        if not stream.answered:
            self.flow_control.reachability.answered(stream, now)
        nbytes += ELEMENT_NBYTES
        stream.balance -= nbytes
        stream.heard_at, stream.breaks = now, 0
        self._refused.pop(frame.task, None)
        self._arrivals += 1
        piece = FrameSlice(frame, load, nbytes, self._arrivals, frame.first, frame.first + 1)
        return self._buffers[frame.task].put(piece)

    def on_view(self, tasks: Mapping[TaskId, TaskView], seq: int, now: float) -> None:
        """Take over where tasks are read; one that is not there is done, and all of it taken.

        The view answers heartbeat *seq*.
        """
        for task in self.tasks.keys() - tasks.keys():
            self.flow_control.close(self.tasks.pop(task))
            self._refused.pop(task, None)
            del self._buffers[task]
        for task, seen in tasks.items():
            self._on_task_view(task, seen)
        for task, refused in self._refused.items():
            if refused is not None and seq > refused:
                self._refused[task] = None
                self.tasks[task].failure = None
                self._open(task, now)

    def on_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of an attempt.

        A worker refuses a request if the wanted groups were skipped while the request was on its
        way. The reader repeats the request once it has the dispatcher's newer view.
        """
        self.flow_control.on_ended(subscription, end, now)
        stream = self.tasks.get(end.task)
        if stream is not None and is_refused(stream) and end.task not in self._refused:
            self._refused[end.task] = self._membership.seq
            self._effects.append(SendHeartbeat())

    def close_all(self) -> None:
        """Close every stream: this reader's id is not valid any more."""
        for stream in self.tasks.values():
            self.flow_control.close(stream)

    def open_all(self, now: float) -> None:
        """Subscribe to each readable task that has no stream."""
        for task, stream in self.tasks.items():
            if stream.readable and not stream.streaming and now >= stream.retry_at:
                self._open(task, now)

    def fetch_missing(self, now: float) -> None:
        """Ask again for elements that were here, and are needed once more."""
        for task, groups in self._wanted().items():
            buffer = self._buffers.get(task)
            if buffer is None or not buffer.missing(groups):
                continue
            if buffer.stream.streaming or buffer.stream.ended:
                self._open(task, now)

    def raise_refusal(self) -> None:
        """Raise what a worker refused this consumer for; failures of pipelines end the pass."""
        for task, stream in self.tasks.items():
            if is_refused(stream) and self._refused.get(task) is None:
                raise stream.error()

    def _on_task_view(self, task: TaskId, seen: TaskView) -> None:
        buffer = self._buffers.get(task)
        if buffer is None:
            buffer = self._buffers[task] = GroupBuffer(task)
            self.tasks[task] = buffer.stream
        stream = buffer.stream
        buffer.released = seen.released
        buffer.settle(seen.floor)
        if seen.worker is None:
            self.flow_control.close(stream)
            stream.fence = max(stream.fence, seen.attempt + 1)
        elif seen.attempt > stream.attempt or stream.worker is None:
            self.flow_control.close(stream)
            if seen.attempt != stream.attempt:
                buffer.renew()
            profile = seen.profile or UNKNOWN_WORKER
            stream.on_assigned(seen.attempt, seen.worker, seen.incarnation, profile)
            stream.failure = None
            self._refused.pop(task, None)

    def _wanted(self) -> dict[TaskId, list[int]]:
        wanted: dict[TaskId, list[int]] = {}
        for entry in self._log.wanted():
            wanted.setdefault(entry.task, []).append(entry.group)
        return wanted

    def _open(self, task: TaskId, now: float) -> None:
        """Subscribe, even to a stream that ended: it sends needed elements again."""
        member, buffer = self._membership, self._buffers[task]
        if member.reader is None or member.leaving or buffer.stream.worker is None:
            return
        buffer.stream.ended = False
        first = buffer.seek(e.group for e in self._log.wanted() if e.task == task)
        wants = GroupsWanted(self._index, first)
        self.flow_control.open(buffer.stream, member.reader, now, wants)


def is_refused(stream: TaskStream) -> bool:
    """Return whether the worker refused the request."""
    return stream.failure is not None and stream.failure.kind == "Refused"

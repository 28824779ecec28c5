"""The streams of one consumer, one for each task: they fetch elements ahead of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.protocol.control import TaskView
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.nearness import UNKNOWN_WORKER
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import ELEMENT_NBYTES, GroupsHeld, GroupsWanted, RoundEntry
from penstock.protocol.types import TaskId
from penstock.reader.core.effects import ReaderEffect, SendHeartbeat
from penstock.reader.core.flow_control import FlowControl
from penstock.reader.core.limits import Limit
from penstock.reader.core.membership import Membership
from penstock.reader.core.round_log import RoundLog
from penstock.reader.core.task_stream import FrameElements, FrameSlice, TaskStream


class GroupBuffer:
    """The buffered elements of one task that are not handed out, and its stream."""

    def __init__(self, task: TaskId) -> None:
        self.stream = TaskStream(task)
        self.released = 0
        """How many of its groups are rounds."""
        self.refetched = False
        """Whether released groups came again, which may be needed or not."""
        self._next = 0
        """The group that comes next on the stream; all that is needed of those before is here."""
        self._groups: dict[int, FrameSlice] = {}

    def __contains__(self, group: int) -> bool:
        return group in self._groups

    def get(self, group: int) -> FrameSlice | None:
        """Return the element of *group*, if it is here."""
        return self._groups.get(group)

    @property
    def held(self) -> GroupsHeld:
        """The report of this task."""
        return GroupsHeld(self.stream.task, self.stream.attempt, self._next)

    def put(self, piece: FrameSlice) -> bool:
        """Keep an element, if it is needed; return whether more is held than before."""
        group = piece.frame.group
        self.refetched = self.refetched or group < self.released
        if group >= self._next:
            known = self._groups.setdefault(group, piece)
            self.stream.slices.append(known)
            self.stream.nbytes += known.nbytes
        more = group + 1 > self._next
        self._next = max(self._next, group + 1)
        return more

    def discard(self, group: int) -> None:
        """Drop the element of *group*, if it is here: its bytes are free."""
        piece = self._groups.pop(group, None)
        if piece is not None and piece in self.stream.slices:
            self.stream.deliver(piece)

    def let_go(self) -> None:
        """Drop all elements."""
        self._groups.clear()
        self.stream.clear()

    def keep(self, wanted: Iterable[int]) -> None:
        """Drop released groups that are not *wanted*: they were handed out, or are skipped."""
        needed, self.refetched = set(wanted), False
        for group in [g for g in self._groups if g < self.released and g not in needed]:
            self.discard(group)

    def renew(self) -> None:
        """Drop groups that are not released: another attempt makes all of these groups again."""
        for group in [g for g in self._groups if g >= self.released]:
            self.discard(group)

    def seek(self, wanted: Iterable[int]) -> int:
        """Return the first group to be sent: of released groups those *wanted*, then all others.

        The worker sends buffered groups again only if they follow a gap. Until then they use no
        room, because the groups that fill the gap may need it.
        """
        gaps = (group for group in wanted if group not in self._groups)
        first = min(gaps, default=self.released)
        if first >= self.released:
            first = self.released
            while first in self._groups:
                first += 1
        self._next = first
        before = [piece for piece in self.stream.slices if piece.frame.group < first]
        self.stream.slices, self.stream.nbytes = before, sum(piece.nbytes for piece in before)
        return first

    def missing(self, wanted: Iterable[int]) -> bool:
        """Return whether the stream, as it continues, leaves out some group of *wanted*."""
        return any(group < self._next and group not in self._groups for group in wanted)

    def settle(self, floor: int) -> None:
        """Pass on that all consumers have taken all elements below *floor*."""
        if floor > self.stream.acked.floor:
            self.stream.acked = AckedSet(floor)
            self.stream.unsent_acks = RangeSet(((0, floor),))


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
        self.flow_control = FlowControl(self.tasks, limit, effects, charge=ELEMENT_NBYTES)
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
        if stream is None or not stream.expects(frame):
            return False
        nbytes = self.flow_control.on_frame(stream, nbytes, now)
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
                self.open(task, now)

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

    def open(self, task: TaskId, now: float) -> None:
        """Subscribe, even to a stream that ended: it sends needed elements again."""
        member, buffer = self._membership, self._buffers[task]
        if member.reader is None or member.leaving or buffer.stream.worker is None:
            return
        buffer.stream.ended = False
        first = buffer.seek(e.group for e in self._log.wanted() if e.task == task)
        wants = GroupsWanted(self._index, first)
        self.flow_control.open(buffer.stream, member.reader, now, wants)

    def fetch_missing(self, now: float) -> None:
        """Ask again for elements that were here, and are needed once more."""
        for task, groups in self._wanted().items():
            buffer = self._buffers.get(task)
            if buffer is None or not buffer.missing(groups):
                continue
            if buffer.stream.streaming or buffer.stream.ended:
                self.open(task, now)

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


def is_refused(stream: TaskStream) -> bool:
    """Return whether the worker refused the request."""
    return stream.failure is not None and stream.failure.kind == "Refused"
